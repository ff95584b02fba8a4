// What of ssh's configuration libssh2 and our reading of it can do. All else is for the user's own ssh program.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace tfdist::ssh {

// Keywords of ssh_config(5) in lower case, each with its values in order, as `ssh -G` prints them.
using Settings = std::multimap<std::string, std::string, std::less<>>;

// Whether a login by libssh2 is the same whatever the keyword's value is: tfdist forwards nothing, asks for no terminal,
// and has its own limits of time.
bool IsIrrelevant(std::string_view keyword);

// As ssh_config(5) writes a keyword that people meet; others in lower case.
std::string NameOf(const std::string& keyword);

// Why libssh2 cannot do what the configuration asks for ("BindAddress 10.0.0.7"); empty: it can. A list of what it can, not of
// what it cannot: a keyword that is not known here must have the value that `defaults` has for it.
std::string WhyBeyondLibrary(const Settings& settings, const std::function<Settings()>& defaults);

}  // namespace tfdist::ssh
