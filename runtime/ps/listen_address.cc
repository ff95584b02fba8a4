#include "runtime/ps/listen_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <memory>

#include "base/error.h"
#include "base/unique_fd.h"

namespace tfdist::runtime {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// nullptr unless `host` is a numeric address: no name is looked up.
AddressList ParseNumeric(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) list = nullptr;
  return {list, freeaddrinfo};
}

// Whether this machine has the address: bind(2) to port 0 says so without taking the port.
bool IsLocal(const addrinfo& address) {
  const UniqueFd probe(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return probe.valid() && bind(probe.get(), address.ai_addr, address.ai_addrlen) == 0;
}

}  // namespace

ListenAddress ChooseListenAddress(const HostPort& own, bool secure) {
  const AddressList numeric = ParseNumeric(own.host);
  if (numeric && IsLocal(*numeric)) return {"tcp://" + ToString(own), ""};
  const std::string why =
      own.host + (numeric ? " is not an address of this machine" : " is a name");
  if (!secure) {
    throw Error(Phase::kPorts, why + ": without security a server listens at its own address only",
                "write a numeric address of this machine into the cluster spec");
  }
  return {fmt::format("tcp://*:{}", own.port),
          fmt::format("{}: listening on every address of this machine", why)};
}

}  // namespace tfdist::runtime
