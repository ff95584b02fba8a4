// The tables of a cluster file and their keys: configs/README.md is the reference for users.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tfdist::cli {

inline constexpr std::string_view kTopKeys[] = {"name",
                                                "done",
                                                "deadline",
                                                "on_deadline",
                                                "deadline_warning",
                                                "deadline_signal",
                                                "finish_timeout",
                                                "silent_after",
                                                "cluster",
                                                "task",
                                                "roles",
                                                "setup",
                                                "data",
                                                "restart",
                                                "ssh",
                                                "control",
                                                "check",
                                                "tensorboard"};
inline constexpr std::string_view kClusterKeys[] = {"hosts", "layout", "chief_name", "ports",
                                                    "gpus"};
inline constexpr std::string_view kHostKeys[] = {"address", "ssh",   "gpus",     "env",
                                                 "slots",   "spare", "transport"};
inline constexpr std::string_view kHostFileKeys[] = {"file"};
inline constexpr std::string_view kTaskKeys[] = {
    "command",   "workdir", "cwd",     "venv",   "conda",    "env",
    "env_from",  "gpus",    "program", "shared", "output",   "grace",
    "log_limit", "image",   "engine",  "mounts", "shm_size", "entrypoint"};
inline constexpr std::string_view kRoleKeys[] = {
    "hosts",     "count", "per_host", "ports",    "more_ports", "command",   "cwd",
    "venv",      "conda", "env",      "env_from", "gpus",       "output",    "grace",
    "log_limit", "image", "engine",   "mounts",   "shm_size",   "entrypoint"};
inline constexpr std::string_view kRestartKeys[] = {"policy", "limit", "within", "backoff"};
inline constexpr std::string_view kSetUpKeys[] = {"command", "inputs", "timeout"};
inline constexpr std::string_view kDataKeys[] = {"path"};
inline constexpr std::string_view kImageKeys[] = {"archive", "name", "local"};
inline constexpr std::string_view kSshKeys[] = {"user",      "port",      "identity_file", "config",
                                                "host_keys", "transport", "remote_dir"};
inline constexpr std::string_view kControlKeys[] = {"port"};
inline constexpr std::string_view kCheckKeys[] = {"python"};
inline constexpr std::string_view kTensorBoardKeys[] = {"logdir"};

// For a key that is not among `known`: the nearest of them, or the table where it belongs.
std::string HintForUnknownKey(std::string_view key, std::span<const std::string_view> known);

// "--set task.venv=..." where `key` is one of [task], of [cluster] or of the top that holds a value; else empty.
std::string SetForKey(std::string_view key);

// "\"uai\", \"mirrored\" or \"roles\"".
std::string OneOf(std::span<const std::string_view> choices);

}  // namespace tfdist::cli
