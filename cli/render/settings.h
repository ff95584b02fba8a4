// What a plan says of a job and of each task, by the keys and in the words of the cluster file: for `describe`, and to name what two
// plans differ in. Of the user's variables a short hash of the value stands for it, as this is kept, and shown.
#pragma once

#include <map>
#include <string>

#include "cli/plan/plan.h"

namespace tfdist::cli {

// "grace" -> "10s", "env.STEPS" -> "sha256:1a2b3c4d", "venv" -> "~/venv". The place is "host", the port "port". Not the command, nor what
// is not said and has no default.
using Settings = std::map<std::string, std::string>;

// Everything of a task that changes the plan's hash, but for its command.
Settings SettingsOf(const Plan& plan, const TaskOnHost& task);
// Everything else that changes it: "deadline" -> "5m".
Settings SettingsOf(const Plan& plan);

// "0,1", "all", "none", "decided on the host".
inline constexpr const char* kDecidedOnTheHost = "decided on the host";
std::string GpuText(const TaskOnHost& task);

// The plan's set-up command as a shell line, and its inputs: "uv sync (inputs uv.lock)".
std::string SetUpText(const Plan& plan);

// Where data of the plan lies: "imagenet: ~/imagenet on the hosts", "digits: /home/me/digits, sent from here".
std::string DataText(const Plan& plan, const DataPlan& data);

// Tells two values apart without showing either, unless the variable is tfdist's own: those hold no secrets.
std::string ValueOrHash(const std::string& name, const std::string& value);

}  // namespace tfdist::cli
