// What libc would look up in the machine's files, by its resolver or through its NSS modules, for libzmq: addresses
// and accounts. The agent gives libzmq numeric addresses and no accounts, and a static glibc must not load the
// machine's modules. These stand in for libc's functions in the static executable, so that nothing else of all that
// is linked in: the agent is 54 kB shorter when sent. Sources: getaddrinfo(3), getnameinfo(3), RFC 3493 6.1.
#include <arpa/inet.h>
#include <grp.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct Entry {
  addrinfo info;  // first: a pointer to it is one to the entry
  sockaddr_storage address;
};

bool ToV6(const char* text, int family, int flags, sockaddr_in6& address) {
  address.sin6_family = AF_INET6;
  if (family == AF_INET) return false;
  if (inet_pton(AF_INET6, text, &address.sin6_addr) == 1) return true;
  if (family != AF_INET6 || (flags & AI_V4MAPPED) == 0) return false;
  const std::string mapped = std::string("::ffff:") + text;
  return inet_pton(AF_INET6, mapped.c_str(), &address.sin6_addr) == 1;
}

bool ToV4(const char* text, int family, sockaddr_in& address) {
  address.sin_family = AF_INET;
  return family != AF_INET6 && inet_pton(AF_INET, text, &address.sin_addr) == 1;
}

// The size of the address; 0: the text is none of that family.
socklen_t Parse(const char* text, int family, int flags, sockaddr_storage& address) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (ToV4(text, family, v4)) {
    std::memcpy(&address, &v4, sizeof v4);
    return sizeof v4;
  }
  if (ToV6(text, family, flags, v6)) {
    std::memcpy(&address, &v6, sizeof v6);
    return sizeof v6;
  }
  return 0;
}

// "%eth0" behind an address that means something on one link alone.
std::string ZoneOf(const sockaddr_in6& address) {
  std::array<char, IF_NAMESIZE> name{};
  if (address.sin6_scope_id == 0) return {};
  const bool is_known = if_indextoname(address.sin6_scope_id, name.data()) != nullptr;
  return "%" + (is_known ? std::string(name.data()) : std::to_string(address.sin6_scope_id));
}

// Empty: no address of IP.
std::string TextOf(const sockaddr& address, socklen_t size) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (address.sa_family == AF_INET && size >= sizeof v4) {
    std::memcpy(&v4, &address, sizeof v4);
    return inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  }
  if (address.sa_family == AF_INET6 && size >= sizeof v6) {
    std::memcpy(&v6, &address, sizeof v6);
    return inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size()) + ZoneOf(v6);
  }
  return {};
}

}  // namespace

extern "C" {

// A numeric address, and no service.
int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** list) {
  if (node == nullptr || service != nullptr) return EAI_NONAME;
  const addrinfo wish = hints != nullptr ? *hints : addrinfo{};
  auto* entry = static_cast<Entry*>(std::calloc(1, sizeof(Entry)));
  if (entry == nullptr) return EAI_MEMORY;
  entry->info.ai_addrlen = Parse(node, wish.ai_family, wish.ai_flags, entry->address);
  if (entry->info.ai_addrlen == 0) {
    std::free(entry);
    return EAI_NONAME;
  }
  entry->info.ai_family = entry->address.ss_family;
  entry->info.ai_socktype = wish.ai_socktype;
  entry->info.ai_protocol = wish.ai_protocol;
  entry->info.ai_addr = reinterpret_cast<sockaddr*>(&entry->address);
  *list = &entry->info;
  return 0;
}

void freeaddrinfo(addrinfo* list) noexcept { std::free(reinterpret_cast<Entry*>(list)); }

// The address as a number, whatever the flags are, and no service.
int getnameinfo(const sockaddr* address, socklen_t address_size, char* host, socklen_t host_size,
                char* service, socklen_t /*service_size*/, int /*flags*/) {
  if (service != nullptr || host == nullptr) return EAI_NONAME;
  const std::string text = TextOf(*address, address_size);
  if (text.empty()) return EAI_FAMILY;
  if (text.size() >= host_size) return EAI_OVERFLOW;
  std::memcpy(host, text.c_str(), text.size() + 1);
  return 0;
}

// libzmq's filters by account, which nobody here sets, let nobody in.
passwd* getpwuid(uid_t /*uid*/) { return nullptr; }
group* getgrgid(gid_t /*gid*/) { return nullptr; }

}  // extern "C"
