// What ssh(1) says, and what it reads: its stderr at a login, the answer to `ssh -G`, configuration files, key files.
//
// Input: which function (first byte), then the text.
#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/testing/temporary_folder.h"
#include "cli/ssh/config/config_patterns.h"
#include "cli/ssh/config/openssh_config.h"
#include "cli/ssh/keys/identity_file.h"
#include "cli/ssh/openssh/openssh_failure.h"

namespace tfdist::ssh {
namespace {

constexpr int kMostPort = 65535;

void TryLogin(std::string_view text) {
  const LoginFailure failure = ExplainLogin(text, "gpu7", {});
  assert(!failure.cause.empty());
  assert(ExplainLogin(text, "gpu7", {}).cause == failure.cause);
}

void TryConfig(std::string_view text) {
  try {
    const HostConfig config = ParseConfig(text, Target{});
    assert(config.port > 0 && config.port <= kMostPort);
  } catch (const Error&) {
  }
}

// What cannot tell two names apart must say so of any text: a wrong answer shares a configuration.
void TryPatterns(std::string_view text) {
  for (const std::string& file : FilesRead(text)) assert(!file.empty());
  const auto patterns = ConfigPatterns::Parse({std::string(text)});
  if (!patterns) return;
  for (const char* name : {"gpu7", "gpu8", "10.0.0.1"}) {
    assert(patterns->SignatureOf(name) == patterns->SignatureOf(name));
  }
}

void TryMatch(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return;
  const std::string_view name = text.substr(0, space);
  const std::string_view pattern = text.substr(space + 1);
  const bool matches = MatchesPattern(name, pattern);
  if (pattern.find_first_of("*?") == std::string_view::npos) assert(matches == (name == pattern));
  if (matches) assert(MatchesPattern(name, std::string(pattern) + "*"));
  (void)IsPlainHostName(std::string(name));
}

void TryKey(std::string_view text) {
  static const TemporaryFolder folder;
  const auto path = folder.path() / "key";
  ReplaceFile(path, text, 0600);
  const auto key = LookAtIdentityFile(path.string());
  assert(key && key->path == path.string() && !key->unprotected);
}

void Run(int function, std::string_view text) {
  constexpr int kFunctions = 5;
  switch (function % kFunctions) {
    case 0:
      return TryLogin(text);
    case 1:
      return TryConfig(text);
    case 2:
      return TryPatterns(text);
    case 3:
      return TryMatch(text);
    default:
      return TryKey(text);
  }
}

}  // namespace
}  // namespace tfdist::ssh

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  tfdist::ssh::Run(data[0], {reinterpret_cast<const char*>(data + 1), size - 1});
  return 0;
}
