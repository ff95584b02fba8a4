// What a client knows of one server, as the server last said.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/transport/messages.h"
#include "runtime/transport/refusal.h"

namespace tfdist::runtime {

struct ServerFacts {
  uint64_t creation = 0;       // the variables that requests are about; 0: not known yet
  bool is_new = false;         // they were not there before
  bool values_wanted = false;  // first values of them
  // Each row of a push must be seen once, by the optimizer or in a mean.
  bool sums_rows = true;
  // A push must come to all parts of a table that are there.
  bool moves_all_rows = false;
  // The server delays answers to pushes until other trainers have pushed (UpdateMode). So every
  // push must go to every server, as all of them count pushes.
  bool holds_back = false;
  // The trainer counts its pushes itself, the same for all servers (ps/policy/bounded_staleness.h).
  bool own_steps = false;
  uint64_t local_step = 0;  // that the next gradients belong to
  uint64_t step = 0;        // updates that the server has applied
  std::string held_for;     // trainers that must push before the server answers; empty: none
  bool is_over = false;     // the chief has ended the training
  // The server's load, as its replies tell it (Reply): the largest since somebody took them.
  uint32_t longest_queue = 0;
  uint32_t most_held = 0;
  uint64_t idle_microseconds = 0;  // of now
  // Where the server's other threads listen; nullopt before its first hello.
  std::optional<std::vector<uint16_t>> ports;
  std::chrono::steady_clock::time_point last_answer{};

  // Requests can be sent.
  [[nodiscard]] bool opened() const { return creation != 0; }
  // Of a reply to kCreate or kOpen.
  void TakeOpened(const Reply& reply);
  // Of any reply.
  void TakeAny(const Reply& reply);
};

// What a reply with status kRefused says. `server` is for the text: "ps:1 at 10.0.0.2:2223".
Refusal RefusalOf(const Reply& reply, const std::string& server);

}  // namespace tfdist::runtime
