// Whether the kernel executes a file. Only the kernel knows: it may have been taught formats of other machines (binfmt_misc), and
// a container does not see which.
#pragma once

#include <filesystem>
#include <optional>

namespace tfdist::agent {

// Lets the kernel execute `file` in `folder` as a process that is traced, and kills it before its first instruction, ptrace(2).
// Returns the errno of execve(2); nullopt where it has succeeded, or where nothing is known: no process may be traced here, or
// execve failed for a reason that may pass.
std::optional<int> WhyKernelRefuses(const std::filesystem::path& file,
                                    const std::filesystem::path& folder);

}  // namespace tfdist::agent
