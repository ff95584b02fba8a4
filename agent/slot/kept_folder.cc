#include "agent/slot/kept_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "agent/slot/task_files.h"
#include "base/failures.h"
#include "base/file.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSecond = 1'000'000'000;

// Ids of one name are in the order of their times.
bool IsNewestOfItsName(const fs::path& job, const std::string& name) {
  std::error_code error;
  // Not a range's for: its ++ throws.
  for (fs::directory_iterator other(job.parent_path(), error), end; !error && other != end;
       other.increment(error)) {
    const std::string id = other->path().filename();
    if (layout::IsJobIdOf(id, name) && id > job.filename().string()) return false;
  }
  return true;
}

bool IsTheWayToKept(const SlotFolder& folder) {
  const fs::path job = folder.path().parent_path();
  const std::string name = NameOfJob(job.filename());
  const fs::path kept = job.parent_path().parent_path() / layout::kKeep / name;
  const protocol::KeptFiles found = LookAtKept(kept, TimePoint());  // one is enough
  return (found.files > 0 || !found.all) && IsNewestOfItsName(job, name);
}

struct KeptUser {
  std::string home;
  std::string who;
};

constexpr size_t kMostUsers = 32;  // the newest

// A line each, "HOME WHO"; the last one has started the newest job.
std::vector<KeptUser> ReadUsers(const fs::path& file) {
  constexpr size_t kMaxBytes =
      kMostUsers * (protocol::kMostHomeBytes + protocol::kMostWhoBytes + 2);
  const std::string text = ReadOwnFileIfExists(file, kMaxBytes).value_or("");
  std::vector<KeptUser> users;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = TakeUpTo('\n', rest);
    const std::string_view home = TakeUpTo(' ', line);
    users.push_back({std::string(home), std::string(line)});
  }
  return users;
}

void WriteUsers(const fs::path& file, const std::vector<KeptUser>& users) {
  std::string text;
  for (const KeptUser& user : users) text += fmt::format("{} {}\n", user.home, user.who);
  ReplaceFile(file, text, 0600);
}

// An empty folder is nobody's.
std::vector<KeptUser> UsersThere(const fs::path& kept, const protocol::KeptFiles& found) {
  return found.files > 0 || !found.all ? ReadUsers(UsersOfKept(kept)) : std::vector<KeptUser>();
}

protocol::KeptBy WhoseAre(const std::vector<KeptUser>& users, const protocol::KeptClaim& claim) {
  if (users.empty()) return {};
  const bool is_known = std::ranges::find(users, claim.home, &KeptUser::home) != users.end();
  return {.who = users.back().home != claim.home ? users.back().who : "",
          .is_stranger = !is_known && !claim.take};
}

// It goes into lines.
void CheckClaim(const protocol::KeptClaim& claim) {
  const bool is_id = layout::IsPlainName(claim.home, protocol::kMostHomeBytes);
  const bool is_line = claim.who.size() <= protocol::kMostWhoBytes &&
                       std::ranges::none_of(claim.who, [](unsigned char c) { return c < ' '; });
  if (is_id && is_line && layout::IsPlainName(claim.name, layout::kMostJobBytes)) return;
  throw ProtocolError(Phase::kFiles, "malformed claim to {keep}");
}

}  // namespace

protocol::KeptFound FindKept(const fs::path& base, const protocol::KeptClaim& claim,
                             TimePoint deadline) {
  CheckClaim(claim);
  const fs::path folder = base / layout::kKeep / claim.name;
  const protocol::KeptFiles files = LookAtKept(folder, deadline);
  return {files, WhoseAre(UsersThere(folder, files), claim)};
}

protocol::KeptBy ClaimKept(const SlotInfo& info, const protocol::KeptClaim& claim) {
  CheckClaim(claim);
  const fs::path kept = fs::path(info.base) / layout::kKeep / claim.name;
  const protocol::KeptFiles found = LookAtKept(kept, TimePoint());  // one is enough
  std::vector<KeptUser> users = UsersThere(kept, found);
  protocol::KeptBy by = WhoseAre(users, claim);
  if (by.is_stranger || info.name != claim.name) return by;
  const auto own = std::ranges::find(users, claim.home, &KeptUser::home);
  const bool is_noted = own != users.end() && own + 1 == users.end() && own->who == claim.who;
  if (is_noted) return by;
  if (own != users.end()) users.erase(own);
  if (users.size() == kMostUsers) users.erase(users.begin());
  users.push_back({claim.home, claim.who});
  WriteUsers(UsersOfKept(kept), users);
  return by;
}

fs::path KeptFolder(const SlotInfo& info) {
  return fs::path(info.base) / layout::kKeep / info.name;
}

protocol::KeptFiles LookAtKept(const fs::path& folder, TimePoint deadline) {
  protocol::KeptFiles kept;
  int64_t newest_ns = 0;
  std::error_code error;
  // Not a range's for: its ++ throws.
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat info {};
    if (lstat(entry->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    ++kept.files;
    kept.bytes += static_cast<uint64_t>(info.st_size);
    const int64_t changed_ns = info.st_mtim.tv_sec * kSecond + info.st_mtim.tv_nsec;
    if (kept.newest.empty() || changed_ns > newest_ns) {
      newest_ns = changed_ns;
      kept.newest = entry->path().lexically_relative(folder).string();
    }
    kept.all = SystemClock().Now() < deadline;
    if (!kept.all) break;
  }
  if (error && error != std::errc::no_such_file_or_directory) kept.all = false;
  if (!kept.newest.empty())
    kept.age_s = std::max<int64_t>(0, WallClockNanoseconds() - newest_ns) / kSecond;
  return kept;
}

bool HasResults(const SlotFolder& folder, TimePoint deadline) {
  return FindTaskFile(folder, deadline) || IsTheWayToKept(folder);
}

}  // namespace tfdist::agent
