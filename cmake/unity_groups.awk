# Which files of a target may be compiled as one: prints "GROUP FILE" for each file it is given, with SIZE files a group at most.
# Two files stay apart when both declare a name for themselves, in a namespace without a name, or when one defines a macro.
# A name is found by its place: this code base begins such declarations in the first column. One that is missed is a
# redefinition that the compiler reports, never another program.
function local_name(line,    name) {
  if (line ~ /^(template|using namespace|namespace|static_assert|TEST|INSTANTIATE|[ }\/#])/ || line == "") return ""
  if (line ~ /^using [A-Za-z_0-9]+ =/) return line
  if (line ~ /^using /) return ""
  if (match(line, /^(struct|class|enum class|enum|union) [A-Za-z_0-9]+/)) {
    name = substr(line, RSTART, RLENGTH)
    sub(/.* /, "", name)
    return name
  }
  sub(/ *(=|\{|;).*$/, "", line)
  if (match(line, /[A-Za-z_0-9]+\(/)) return substr(line, RSTART, RLENGTH - 1)
  sub(/ *\[.*$/, "", line)
  return match(line, /[A-Za-z_0-9]+$/) ? substr(line, RSTART, RLENGTH) : ""
}
function close_file(    group, name, fits) {
  if (file == "") return
  for (group = 0; !alone; ++group) {
    fits = held[group] < SIZE
    for (name in names) if ((group, name) in taken) fits = 0
    if (fits) break
  }
  if (alone) group = "alone" FNR file
  for (name in names) taken[group, name] = 1
  ++held[group]
  if (!alone) print group, file
}
FNR == 1 { close_file(); file = FILENAME; split("", names); inside = alone = 0 }
/^#define/ { alone = 1 }
/^namespace \{/ { inside = 1; next }
/^\} +\/\/ namespace$/ { inside = 0 }
/^static / || inside { name = local_name($0); if (name != "") names[name] = 1 }
END { close_file() }
