#include "runtime/client/server_facts.h"

#include <algorithm>

#include "runtime/update/update_mode.h"

namespace tfdist::runtime {

void ServerFacts::TakeOpened(const Reply& reply) {
  creation = reply.creation;
  local_step = reply.local_step;
  const UpdateKind kind = ParseUpdateMode(reply.update_mode).kind;
  holds_back = kind != UpdateKind::kAsync;
  own_steps = kind == UpdateKind::kStaleness;
  values_wanted = reply.status == Status::kValuesWanted;
  sums_rows = reply.sums_rows;
  moves_all_rows = reply.moves_all_rows;
  is_new = reply.is_new;
}

void ServerFacts::TakeAny(const Reply& reply) {
  step = std::max(step, reply.step);
  is_over = reply.is_over;
  longest_queue = std::max(longest_queue, reply.queue);
  most_held = std::max(most_held, reply.held);
  idle_microseconds = std::max(idle_microseconds, reply.idle_microseconds);
}

Refusal RefusalOf(const Reply& reply, const std::string& server) {
  return {reply.refusal, server + " refuses the request: " + reply.error, reply.remedy};
}

}  // namespace tfdist::runtime
