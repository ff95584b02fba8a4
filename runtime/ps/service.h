// What a parameter server answers: decides who may ask what, and turns requests into replies. Knows
// messages and variables, no sockets: `Handle` gets what arrived and returns what is to be sent.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/ps/variable_store.h"
#include "runtime/transport/messages.h"
#include "runtime/transport/server_socket.h"

namespace tfdist::runtime {

struct ServiceOptions {
  uint32_t attempt = 1;            // of the job
  std::set<std::string> trainers;  // who may ask: "master:0", "worker:1"
  std::string chief;               // who may create variables
};

struct ServiceCounters {
  uint64_t pulls = 0;
  uint64_t pushes = 0;
  uint64_t refused = 0;
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
};

class Service {
 public:
  explicit Service(ServiceOptions options) : options_(std::move(options)) {}

  struct Outgoing {
    Peer to;
    Frames frames;
  };
  // Usually one reply. None for a pull before the variables are created, nor for a request of a
  // later attempt, which is meant for the server that follows this one; several when a pull has
  // waited. A request that cannot be granted is answered with the reason, and changes nothing.
  std::vector<Outgoing> Handle(const Incoming& incoming);

  [[nodiscard]] const ServiceCounters& counters() const { return counters_; }

 private:
  struct Waiting {
    Peer peer;
    uint64_t sequence = 0;
  };
  struct Applied {
    uint64_t run = 0;
    uint64_t sequence = 0;
  };

  std::vector<Outgoing> Answer(const Incoming& incoming, const Request& request);
  void CheckSender(const Peer& peer, const Request& request) const;
  std::vector<Outgoing> Create(const Incoming& incoming, const Request& request);
  std::vector<Outgoing> Pull(const Incoming& incoming, const Request& request);
  std::vector<Outgoing> PushPull(const Incoming& incoming, const Request& request);
  [[nodiscard]] bool IsApplied(const Request& request) const;

  Outgoing Acknowledge(const Peer& peer, uint64_t sequence);
  Outgoing Values(const Peer& peer, uint64_t sequence);
  Outgoing Refuse(const Peer& peer, uint64_t sequence, const std::string& why);

  ServiceOptions options_;
  VariableStore store_;
  ServiceCounters counters_;
  std::map<std::string, Waiting> waiting_;  // by task: a trainer has one request under way
  std::map<std::string, Applied> applied_;  // by task: its last push
};

}  // namespace tfdist::runtime
