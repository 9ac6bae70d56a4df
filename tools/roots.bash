#!/usr/bin/env bash
# Roots of Debian releases for checks, by debootstrap and chroot, as root. Sourced by tools/fresh_root and tools/release.
#
#   SACCADE_MIRROR   the suite's mirror (default: debootstrap's own)
#   SACCADE_COMPONENTS   what of it is used (default: main); of Ubuntu's suites main,universe

roots_mounted=()
unmount_roots() {
  local i
  for ((i = ${#roots_mounted[@]} - 1; i >= 0; i--)); do umount -l "${roots_mounted[i]}"; done
  roots_mounted=()
}

# make_root SUITE FOLDER [PACKAGES]: a minimal root with ca-certificates; one that is there is used again.
make_root() {
  local suite=$1 root=$2
  ((EUID == 0)) || { echo "a root of Debian needs root, for chroot" >&2; return 1; }
  command -v debootstrap >/dev/null || { echo "a root of Debian needs debootstrap" >&2; return 1; }
  if [[ -e $root/etc/debian_version ]]; then return; fi
  # Under its own name when it is whole: a run that was stopped leaves no root that looks like one.
  rm -rf --one-file-system "$root.partial"
  debootstrap --variant=minbase --components="${SACCADE_COMPONENTS:-main}" --include="ca-certificates${3:+,$3}" "$suite" \
    "$root.partial" ${SACCADE_MIRROR:+"$SACCADE_MIRROR"} || return
  if [[ -d $root ]]; then rmdir "$root" || return; fi
  mv "$root.partial" "$root"
}

# mount_into ROOT PATH ARGUMENTS...
mount_into() {
  mkdir -p "$1/$2"
  mount "${@:3}" "$1/$2" || return
  roots_mounted+=("$1/$2")
  mount --make-rslave "$1/$2"  # unmounting there unmounts nothing here
}

# enter_root ROOT: mounts what programs expect. Certificates that this machine trusts and the clients' settings for them go
# along, so that a registry behind a proxy can be reached. The caller unmounts (unmount_roots) when it ends.
enter_root() {
  local root=$1 settings
  mount_into "$root" proc -t proc proc
  mount_into "$root" sys --rbind -o ro /sys
  mount_into "$root" dev --rbind /dev
  mount_into "$root" run -t tmpfs tmpfs
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  if [[ -r ${SSL_CERT_FILE:-} ]]; then cp -L "$SSL_CERT_FILE" "$root/etc/ssl/certs/ca-certificates.crt"; fi
  for settings in "$HOME/.npmrc" "$HOME/.pip/pip.conf" "$HOME/.config/pip/pip.conf"; do
    if [[ -r $settings ]]; then install -D -m 600 "$settings" "$root/root/${settings#"$HOME"/}"; fi
  done
  if [[ -r /etc/pip.conf ]]; then cp -L /etc/pip.conf "$root/etc/pip.conf"; fi
  for settings in /etc/apt/apt.conf.d/*proxy* /etc/apt/apt.conf.d/*registry*; do
    if [[ -r $settings ]]; then cp -L "$settings" "$root/etc/apt/apt.conf.d/"; fi
  done
}

# in_root ROOT COMMAND...: the machine's own variables stay outside, but for what says how registries are reached.
in_root() {
  chroot "$1" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    ${SACCADE_JOBS:+SACCADE_JOBS="$SACCADE_JOBS"} ${http_proxy:+http_proxy="$http_proxy"} \
    ${https_proxy:+https_proxy="$https_proxy"} ${SSL_CERT_FILE:+SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt} \
    ${PIP_CERT:+PIP_CERT=/etc/ssl/certs/ca-certificates.crt} ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} \
    ${PIP_DEFAULT_TIMEOUT:+PIP_DEFAULT_TIMEOUT="$PIP_DEFAULT_TIMEOUT"} \
    ${NODE_EXTRA_CA_CERTS:+NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt} "${@:2}" </dev/null
}
