// What the running tasks of this host look like from outside: /proc, their logs, and py-spy.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "wire/task_look.h"

namespace tfdist::agent {

// A task that runs, and where its log is.
struct TaskToSee {
  std::string task;
  pid_t pid = 0;
  std::vector<int> ports;
  std::filesystem::path folder;
  std::filesystem::path
      container_run;  // of a task in a container: the folder of its run; else empty
};

// For a thread of its own: a deep look takes a fifth of a second, one at what is used half a second (2 s where nvidia-smi
// is slow), with stacks up to 4 s more.
std::vector<protocol::TaskLook> LookAtTasks(const std::vector<TaskToSee>& tasks,
                                            const protocol::LookRequest& request);

}  // namespace tfdist::agent
