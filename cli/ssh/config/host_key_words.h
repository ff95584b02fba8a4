// The words of an error about a host key that is not known, once ssh has refused it.
#pragma once

#include <string_view>

namespace tfdist::ssh {

inline constexpr std::string_view kTrustsAnybody =
    "ssh's configuration turns the check off (StrictHostKeyChecking no), and tfdist does not "
    "follow it";
// ssh by hand would change nothing.
inline constexpr std::string_view kTrustNewOnes =
    "StrictHostKeyChecking accept-new in ssh's configuration, or host_keys = \"accept-new\" in "
    "[ssh]: "
    "new keys are taken, changed ones refused";
inline constexpr std::string_view kCompareOrTrust =
    "compare the fingerprint, then ssh to it once by hand, or set host_keys = \"accept-new\" in "
    "[ssh]";

}  // namespace tfdist::ssh
