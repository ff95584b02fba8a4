// Programs that hand their work to a daemon, a cluster or another machine: no process of that work descends from the task.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tfdist::protocol {

struct DaemonClient {
  std::string_view name;
  // What follows it where it begins something, perhaps after options; none: whatever follows.
  std::span<const std::string_view> verbs;
  std::string_view remedy;
  std::string_view shown_by;
  std::string_view worker = "a daemon";  // who does the work
  // One of these stands before the verb; none: it need not.
  std::span<const std::string_view> only_with = {};
  // A command with fewer words after the client's name, options not counted, begins nothing.
  size_t least_words = 0;
  // The work ends with a client that ends by itself. Others may leave theirs (docker run -d).
  bool work_ends_with_it = false;
  // With one of these the work is a child of the client.
  std::span<const std::string_view> never_with = {};
};

std::span<const DaemonClient> DaemonClients();
// nullptr: none has that name.
const DaemonClient* FindDaemonClient(std::string_view name);

// The first that stands in words of a command or of shell text, with what begins something; nullptr: none does.
const DaemonClient* DaemonClientIn(std::span<const std::string_view> words);

struct DaemonCall {
  const DaemonClient* client = nullptr;
  std::string words;  // "docker run": never what the user has given it
};
// What a process with these arguments does; nullopt: it is no such client, or begins nothing.
std::optional<DaemonCall> DaemonCallOf(std::span<const std::string_view> argv);

}  // namespace tfdist::protocol
