// Whether a task's ports are free, before anything is started.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "wire/refusal.h"

namespace tfdist::agent {

// It will be free by itself: the kernel keeps it for a while after a server's end (TIME_WAIT), or a check holds it.
class PortWaits : public protocol::Refusal {
 public:
  explicit PortWaits(std::string cause)
      : Refusal(protocol::RefusalKind::kPortTaken, Phase::kPorts, std::move(cause),
                "it is free within a minute; a server that sets SO_REUSEADDR leaves none behind") {}
};
class PortIsChecked : public PortWaits {
 public:
  using PortWaits::PortWaits;
};
// TCP_TIMEWAIT_LEN of Linux is 60 s.
inline constexpr std::chrono::seconds kLongestTimeWait{65};

// Takes the port on every address of this host, as a TensorFlow server will, and lets go of it.
// Looks again for a tenth of a second: another agent may just be doing the same; for a second where it cannot be seen who
// has it. Throws
// Error(kPorts) that names port, task and, where it can be seen, the process that has it, and its job; PortWaits.
void CheckPort(int port, const std::string& task);

// The same, and binds nothing: a port on which somebody listens is not free, by /proc/net/tcp. `address` as TakePort has it.
void LookAtPort(int port, const std::string& task, const std::string& address);

// Whether a check of this account holds it.
bool IsPortOfCheck(int port);

// The same, or whoever held it is just letting go of it.
bool IsPortPassing(int port);

// What to do about a port that is another job's, by its id.
std::string RemedyForPortOfJob(const std::string& job);

// Whether a process of that job listens on it.
bool IsPortOfJob(int port, const std::string& job);

// The same, and keeps the port: sockets that listen on it. `address`: that numeric one alone;
// empty: every address of this host.
std::vector<UniqueFd> TakePort(int port, const std::string& task, const std::string& address = {});

}  // namespace tfdist::agent
