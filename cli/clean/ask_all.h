// The same question about the folders of several hosts, at once.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "base/failures.h"
#include "cli/hosts/for_each_host.h"
#include "cli/job/connector.h"
#include "cli/link/bootstrap.h"
#include "cli/link/house.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

constexpr std::chrono::seconds kCleanLimit{60};  // of one host

// What `ask` says of a host, or why it could not be asked.
template <typename Answer>
struct AnswerOfHost {
  Answer answer;
  std::optional<Error> error;
};

template <typename Answer>
std::vector<AnswerOfHost<Answer>> AskAll(const std::vector<HostPlan>& hosts, const SshOptions& ssh,
                                         const std::function<Answer(const House&)>& ask) {
  std::vector<AnswerOfHost<Answer>> answers(hosts.size());
  const auto failures = ForEachHost(hosts.size(), [&](size_t at) {
    const auto transport = MakeTransport(hosts[at], ssh);
    answers[at].answer = ask({*transport, GetEmbeddedAgents(), ssh.remote_dir, kCleanLimit});
  });
  for (size_t at = 0; at < answers.size(); ++at) {
    if (failures[at]) answers[at].error = WithHost(*failures[at], hosts[at].name);
  }
  return answers;
}

}  // namespace tfdist::cli
