// TLS test helpers: a self-signed certificate, and a client that trusts it alone.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

namespace saccade::serve::test {

// As `openssl req -x509 -newkey ec -nodes -subj /CN=localhost` makes one: for localhost, for an hour.
struct Certificate {
  std::filesystem::path certificate;
  std::filesystem::path key;

  explicit Certificate(const std::filesystem::path& folder)
      : certificate(folder / "certificate.pem"), key(folder / "key.pem") {
    const std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)> secret(::EVP_EC_gen("P-256"),
                                                                       ::EVP_PKEY_free);
    const std::unique_ptr<X509, decltype(&::X509_free)> made(::X509_new(), ::X509_free);
    ::X509_set_version(made.get(), 2);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(made.get()), 1);
    ::X509_gmtime_adj(::X509_getm_notBefore(made.get()), -60);
    ::X509_gmtime_adj(::X509_getm_notAfter(made.get()), 3600);
    ::X509_set_pubkey(made.get(), secret.get());
    X509_NAME* name = ::X509_get_subject_name(made.get());
    ::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    ::X509_set_issuer_name(made.get(), name);
    X509_EXTENSION* names = ::X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost");
    ::X509_add_ext(made.get(), names, -1);
    ::X509_EXTENSION_free(names);
    if (::X509_sign(made.get(), secret.get(), ::EVP_sha256()) == 0) throw std::runtime_error("X509_sign");
    write(certificate, [&](FILE* file) { return ::PEM_write_X509(file, made.get()); });
    write(key, [&](FILE* file) {
      return ::PEM_write_PrivateKey(file, secret.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
    std::filesystem::permissions(key, std::filesystem::perms(0600));
  }

 private:
  template <typename Put>
  static void write(const std::filesystem::path& path, const Put& put) {
    FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr || put(file) != 1 || std::fclose(file) != 0) throw std::runtime_error(path.string());
  }
};

// Sends the text and reads to the end, which must be TLS's own ("close notify"); "" where the server is not
// the one that the certificate is for.
inline std::string exchange_under_tls(uint16_t port, const std::filesystem::path& believed,
                                      std::string_view text) {
  const std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context(::SSL_CTX_new(::TLS_client_method()),
                                                                    ::SSL_CTX_free);
  ::SSL_CTX_load_verify_locations(context.get(), believed.c_str(), nullptr);
  ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  const std::unique_ptr<BIO, decltype(&::BIO_free_all)> connection(::BIO_new_ssl_connect(context.get()),
                                                                   ::BIO_free_all);
  SSL* tls = nullptr;
  BIO_get_ssl(connection.get(), &tls);
  ::SSL_set_mode(tls, SSL_MODE_AUTO_RETRY);
  ::SSL_set1_host(tls, "localhost");
  ::SSL_set_tlsext_host_name(tls, "localhost");
  const std::string address = "127.0.0.1:" + std::to_string(port);
  BIO_set_conn_hostname(connection.get(), address.c_str());
  ::SSL_set1_host(tls, "localhost");
  if (BIO_do_connect(connection.get()) != 1) return "";
  while (!text.empty()) {
    const int sent = ::BIO_write(connection.get(), text.data(), static_cast<int>(text.size()));
    if (sent <= 0) return "";
    text.remove_prefix(static_cast<size_t>(sent));
  }
  std::string answer;
  std::string block(65536, '\0');
  int got = 0;
  while ((got = ::BIO_read(connection.get(), block.data(), static_cast<int>(block.size()))) > 0) {
    answer.append(block, 0, static_cast<size_t>(got));
  }
  return (::SSL_get_shutdown(tls) & SSL_RECEIVED_SHUTDOWN) != 0 ? answer : "";
}

}  // namespace saccade::serve::test
