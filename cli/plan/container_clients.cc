#include "cli/plan/container_clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

namespace tfdist::cli {
namespace {

constexpr std::string_view kClients[] = {"docker", "nerdctl", "podman-remote"};
// What may stand before it: "sudo -n docker", "nice -n 5 docker".
constexpr std::string_view kWrappers[] = {"env",    "exec", "nice", "nohup",
                                          "stdbuf", "sudo", "time", "timeout"};

bool IsOneOf(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

std::string_view NameOf(const protocol::Text& word) {
  if (word.parts.empty()) return {};
  const auto* text = std::get_if<std::string>(&word.parts.front());
  if (text == nullptr) return {};
  return std::string_view(*text).substr(text->rfind('/') + 1);
}

std::optional<std::string> ClientIn(const std::vector<protocol::Text>& argv) {
  if (argv.empty()) return std::nullopt;
  const std::string_view first = NameOf(argv.front());
  if (IsOneOf(first, kClients)) return std::string(first);
  if (!IsOneOf(first, kWrappers)) return std::nullopt;
  for (const protocol::Text& word : argv) {
    if (IsOneOf(NameOf(word), kClients)) return std::string(NameOf(word));
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> ContainerClientsOf(const Plan& plan) {
  std::vector<std::string> clients;
  for (const TaskOnHost& task : plan.tasks) {
    const auto client = ClientIn(task.argv);
    if (client && std::ranges::find(clients, *client) == clients.end()) clients.push_back(*client);
  }
  return clients;
}

void WarnOfContainerClients(Plan& plan) {
  for (const std::string& client : ContainerClientsOf(plan)) {
    plan.warnings.push_back(
        fmt::format("a task runs {0}, whose daemon runs the container: `down` and restarts end the "
                    "client only. The container must "
                    "end with it: {0} run --init --rm, without -d. podman's own containers are "
                    "ended with their task",
                    client));
  }
}

}  // namespace tfdist::cli
