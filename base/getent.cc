#include "base/getent.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "base/text.h"

namespace tfdist {
namespace {

constexpr size_t kMostAnswerBytes = 64 * 1024;
constexpr int kNotFound = 2;  // getent(1)

}  // namespace

std::optional<ProgramResult> AskGetent(const std::string& database, const std::string& key,
                                       TimePoint deadline) {
  try {
    // `--` would be an option too many for the getent of musl.
    return RunProgram({.argv = {"getent", database, key}, .output_limit_bytes = kMostAnswerBytes},
                      deadline);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string WhyGetentHasNone(const ProgramResult& result) {
  if (result.timed_out) return "no answer in time";
  if (result.exit_code == kNotFound) return "the name is not known";
  if (result.exit_code == 0) return "it has no address that other hosts can use";
  return fmt::format("getent ended with {}", result.exit_code);
}

namespace {

// name:password:uid:gid:gecos:home:shell
std::string FieldInPasswd(std::string_view text, uid_t uid, size_t number) {
  const std::string wanted = std::to_string(uid);
  while (!text.empty()) {
    std::string_view line = TakeUpTo('\n', text);
    std::array<std::string_view, 6> fields;
    for (std::string_view& field : fields) field = TakeUpTo(':', line);
    if (fields[2] == wanted) return std::string(fields.at(number));
  }
  return {};
}

}  // namespace

std::string HomeInPasswd(std::string_view text, uid_t uid) { return FieldInPasswd(text, uid, 5); }

std::string NameInPasswd(std::string_view text, uid_t uid) { return FieldInPasswd(text, uid, 0); }

}  // namespace tfdist
