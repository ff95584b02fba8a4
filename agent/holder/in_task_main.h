// The role `in-task`: runs a command of the user in the environment and folder of a task, for
// `tfdist exec` and `tfdist shell`.
#pragma once

#include <string>
#include <vector>

namespace tfdist::agent {

// `arguments`: a task of the slot in whose folder this executable lies ("worker:2"), then the
// command; none: the account's shell. The environment is that of the task's newest run, without the
// job's cookie: what a visitor runs is no part of the job, and its end does not end it. Returns
// only on failure, with exit code 127 and the reason on stderr.
int InTaskMain(const std::vector<std::string>& arguments);

}  // namespace tfdist::agent
