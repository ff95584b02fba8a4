#include "cli/deploy/workdir_list.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "base/clock.h"
#include "base/failures.h"
#include "base/size_text.h"
#include "base/subprocess.h"
#include "base/testing/temporary_folder.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/deploy/workdir_report.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;

Plan PlanWith(const fs::path& workdir) {
  Plan plan;
  plan.workdir = workdir;
  return plan;
}

class WorkdirListTest : public testing::Test {
 protected:
  void Text(const std::string& name, const std::string& content) const {
    fs::create_directories((folder() / name).parent_path());
    std::ofstream(folder() / name, std::ios::binary) << content;
  }
  void Write(const std::string& name, size_t bytes = 1) const {
    Text(name, std::string(bytes, 'x'));
  }
  [[nodiscard]] const fs::path& folder() const { return temporary_.path(); }
  [[nodiscard]] static std::vector<std::string> Sent(const fs::path& workdir) {
    std::vector<std::string> paths;
    for (const WorkdirEntry& entry : ListWorkdir(PlanWith(workdir)).entries)
      paths.push_back(entry.path);
    return paths;
  }
  // What stays here by `reason`.
  [[nodiscard]] std::vector<std::string> LeftOutFor(LeftOutBy reason) const {
    std::vector<std::string> paths;
    for (const LeftOut& one : ListWorkdir(PlanWith(folder())).left_out) {
      if (one.by == reason) paths.push_back(one.path);
    }
    return paths;
  }
  // Of a folder that is too large.
  [[nodiscard]] UsageError Refusal(const WorkdirLimits& limits) const {
    try {
      (void)ListWorkdir(PlanWith(folder()), limits);
    } catch (const UsageError& error) {
      return error;
    }
    ADD_FAILURE() << "was not refused";
    return {Phase::kInternal, ""};
  }

 private:
  const TemporaryFolder temporary_;
};

TEST_F(WorkdirListTest, CountsWhatIsSentAndNotVersionControl) {
  Write("train.py", 10);
  Write("data/numbers", 3'000'000);
  Write("data/.git/objects/pack", 5'000'000);
  const WorkdirListing listing = ListWorkdir(PlanWith(folder()));
  EXPECT_THAT(Sent(folder()), ElementsAre("data", "data/numbers", "train.py"));
  EXPECT_EQ(listing.bytes, 3'000'010U);
  EXPECT_EQ(LargestEntries(listing.entries), "data (3.0 MB), train.py (10 bytes)");
  EXPECT_EQ(WorkdirText(listing),
            "workdir: 2 files, 3.0 MB; left out as version control: 5.0 MB (data/.git 5.0 MB)");
  EXPECT_EQ(HowToBringBack(listing, folder()), "");
}

TEST_F(WorkdirListTest, GitIgnoreIsFollowedAndSaidWithAWayBack) {
  Text(".gitignore", "/.venv/\n*.ckpt\n!keep.ckpt\n");
  Write(".venv/lib/big", 2'900'000);
  Write("out/model.ckpt", 100'000);
  Write("out/keep.ckpt");
  Write("train.py");
  EXPECT_THAT(Sent(folder()), ElementsAre(".gitignore", "out", "out/keep.ckpt", "train.py"));
  const WorkdirListing listing = ListWorkdir(PlanWith(folder()));
  EXPECT_EQ(WorkdirText(listing),
            "workdir: 3 files, 28 bytes; left out by .gitignore: 3.0 MB (.venv 2.9 MB, "
            "out/model.ckpt 100 kB)");
  EXPECT_EQ(HowToBringBack(listing, folder()),
            "to send what .gitignore leaves out, write a line such as !/.venv/ into " +
                (folder() / ".tfdistignore").string());
}

TEST_F(WorkdirListTest, ResultsThatPullHasBroughtStayHere) {
  const std::string job = "digits-20260803T120000Z-cccccc";
  Write(job + "/worker-0/model.ckpt", 2'900'000);
  Write("digits-20260803/notes");
  EXPECT_THAT(Sent(folder()), ElementsAre("digits-20260803", "digits-20260803/notes"));
  const WorkdirListing listing = ListWorkdir(PlanWith(folder()));
  EXPECT_THAT(WorkdirText(listing),
              HasSubstr("; left out as results of tfdist pull: 2.9 MB (" + job + " 2.9 MB)"));
  EXPECT_EQ(HowToBringBack(listing, folder()),
            "to send results of tfdist pull, write a line such as !/" + job + "/ into " +
                (folder() / ".tfdistignore").string());
  Text(".tfdistignore", "!/digits-*/\n");
  EXPECT_THAT(Sent(folder()), testing::Contains(job + "/worker-0/model.ckpt"));
}

TEST_F(WorkdirListTest, TfdistIgnoreWinsAndBringsBackFromALeftOutFolder) {
  Text(".gitignore", "data/\ncache/\n");
  Text(".tfdistignore", "notes/\n!/data/\n!/cache/weights\n/data/raw/\n");
  Write("data/train.csv");
  Write("data/raw/huge", 2000);
  Write("cache/a/b");
  Write("cache/weights");
  Write("cache/z/later");
  Write("notes/diary", 10);
  EXPECT_THAT(Sent(folder()), ElementsAre(".gitignore", ".tfdistignore", "cache", "cache/weights",
                                          "data", "data/train.csv"));
  EXPECT_THAT(WorkdirText(ListWorkdir(PlanWith(folder()))),
              HasSubstr("left out by .gitignore: 2 bytes (cache 2 bytes); left out by "
                        ".tfdistignore: 2.0 kB (data/raw 2.0 kB, notes 10 bytes)"));
}

TEST_F(WorkdirListTest, TheRepositorysFilesAboveTheWorkFolderCount) {
  fs::create_directory(folder() / ".git");
  Text(".gitignore", "/project/out/\n*.log\n");
  Text("project/.gitignore", "!keep.log\n");
  Write("project/out/model");
  Write("project/run.log");
  Write("project/keep.log");
  EXPECT_THAT(Sent(folder() / "project"), ElementsAre(".gitignore", "keep.log"));
  fs::remove(folder() / ".git");  // no repository: no business of this folder
  EXPECT_THAT(Sent(folder() / "project"),
              ElementsAre(".gitignore", "keep.log", "out", "out/model", "run.log"));
}

TEST_F(WorkdirListTest, LinksAreSentAsLinksAndPipesNotAtAll) {
  Write("real/file");
  fs::create_directory_symlink("real", folder() / "link");
  ASSERT_EQ(mkfifo((folder() / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(Sent(folder()), ElementsAre("link", "real", "real/file"));
}

TEST_F(WorkdirListTest, RefusesAFolderWithTooManyFilesByNameAndWithARemedy) {
  Text(".gitignore", "/ignored/\n");
  for (int file = 0; file < 20; ++file) {
    Write("many/" + std::to_string(file), 0);
    Write("ignored/" + std::to_string(file), 1000);
  }
  const UsageError error = Refusal({.entries = 10});
  EXPECT_EQ(error.cause(),
            "workdir " + folder().string() +
                " has more than 10 files and folders to send; its largest entries: .gitignore (10 "
                "bytes), many (0 bytes)");
  EXPECT_NE(error.remedy().find(".tfdistignore"), std::string::npos);
  EXPECT_NE(error.remedy().find("--workdir FOLDER"), std::string::npos);
}

TEST(SizeText, RoundsToWhatPeopleRead) {
  for (const auto& [bytes, text] :
       std::vector<std::pair<uint64_t, std::string>>{{0, "0 bytes"},
                                                     {1, "1 byte"},
                                                     {999, "999 bytes"},
                                                     {1000, "1.0 kB"},
                                                     {9949, "9.9 kB"},
                                                     {9950, "10 kB"},
                                                     {999'400, "999 kB"},
                                                     {999'600, "1.0 MB"},
                                                     {83'000'000, "83 MB"},
                                                     {3'100'000'000, "3.1 GB"}}) {
    EXPECT_EQ(SizeText(bytes), text);
  }
  EXPECT_EQ(CountText(1204), "1,204");
  EXPECT_EQ(CountText(1'234'567), "1,234,567");
  EXPECT_EQ(CountText(999), "999");
}

// Folders, files and patterns at random, from few letters so that they meet.
class RandomFolder {
 public:
  RandomFolder(fs::path folder, uint32_t seed) : folder_(std::move(folder)), random_(seed) {
    for (int entry = 0; entry < 12; ++entry) Make(Name(), Below(3));
    IgnoreFileIn(folder_);
    for (const std::string& path : paths_) {
      if (fs::is_directory(folder_ / path) && Below(4) == 0) IgnoreFileIn(folder_ / path);
    }
  }
  [[nodiscard]] const std::set<std::string>& paths() const { return paths_; }
  [[nodiscard]] const std::string& patterns() const { return patterns_; }

 private:
  uint32_t Below(uint32_t count) { return static_cast<uint32_t>(random_() % count); }
  template <size_t kCount>
  const char* OneOf(const char* const (&texts)[kCount]) {
    return texts[Below(kCount)];
  }
  std::string Name() {
    return OneOf({"a", "b", "ab", "a.c", "b.c", "abc", "c d", "x-y", "[a]", "!a", "#b", "ba\\"});
  }

  void Make(const std::string& path, uint32_t depth) {
    std::error_code error;
    if (fs::exists(folder_ / path, error)) return;
    if (!fs::is_directory((folder_ / path).parent_path(), error)) return;
    paths_.insert(path);
    if (depth == 0) {
      std::ofstream(folder_ / path) << "x";
      return;
    }
    fs::create_directory(folder_ / path);
    for (uint32_t entry = Below(4); entry > 0; --entry) Make(path + "/" + Name(), Below(depth + 1));
  }

  std::string Pattern() {
    std::string pattern;
    for (uint32_t part = 1 + Below(5); part > 0; --part) {
      pattern +=
          OneOf({"a",    "b",    "c",    "ab",   "*",     "**",          "?",       "/",     "/",
                 "/**/", "**/",  "[ab]", "[!a]", "[a-c]", "[[:alpha:]]", "\\",      ".c",    " ",
                 "[",    "[]a]", "[^b",  "!",    "#",     "-",           "[[:x:]]", "[\\]a]"});
    }
    return OneOf({"", "", "", "!", "/", "!/", "**/", "\\"}) + pattern +
           OneOf({"", "", "", "/", " ", "\\ ", "\r"});
  }

  void IgnoreFileIn(const fs::path& folder) {
    std::string content;
    for (uint32_t line = 1 + Below(4); line > 0; --line) content += Pattern() + "\n";
    std::ofstream(folder / ".gitignore", std::ios::binary) << content;
    patterns_ += folder.lexically_relative(folder_).string() + ":\n" + content;
  }

  fs::path folder_;
  std::mt19937 random_;
  std::set<std::string> paths_;
  std::string patterns_;
};

constexpr const char* kAskGit =
    "git init -q \"$1\" && exec git -C \"$1\" -c core.excludesFile=/dev/null check-ignore "
    "--no-index -z --stdin <\"$2\"";

// What git does not ignore of `paths`.
std::vector<std::string> SentByGit(const fs::path& folder, const std::set<std::string>& paths) {
  const TemporaryFolder aside;
  std::ofstream names(aside.path() / "names", std::ios::binary);
  for (const std::string& path : paths) names << path << '\0';
  names.close();
  const ProgramResult git = RunProgram(
      {.argv = {"sh", "-c", kAskGit, "sh", folder.string(), (aside.path() / "names").string()}},
      SystemClock().Now() + std::chrono::seconds(60));
  EXPECT_TRUE(git.exit_code == 0 || git.exit_code == 1) << git.error_output;  // 1: nothing is
  std::set<std::string> sent = paths;
  for (std::string_view ignored = git.output; !ignored.empty();) {
    EXPECT_EQ(sent.erase(std::string(TakeUpTo('\0', ignored))), 1U);
  }
  return {sent.begin(), sent.end()};
}

// One repository with many folders, each with patterns of its own: git is asked once for all.
TEST(IgnoreRules, AgreeWithGitOnRandomFolders) {
  constexpr uint32_t kFolders = 100;
  const TemporaryFolder temporary;
  std::set<std::string> paths;
  std::string patterns;
  for (uint32_t seed = 0; seed < kFolders; ++seed) {
    const std::string name = "seed" + std::to_string(seed);
    fs::create_directory(temporary.path() / name);
    const RandomFolder made(temporary.path() / name, seed);
    for (const std::string& path : made.paths()) paths.insert(fmt::format("{}/{}", name, path));
    patterns += fmt::format("{}:\n{}", name, made.patterns());
  }
  std::vector<std::string> sent;
  for (const WorkdirEntry& entry : ListWorkdir(PlanWith(temporary.path())).entries) {
    if (paths.contains(entry.path)) sent.push_back(entry.path);
  }
  std::ranges::sort(sent);
  EXPECT_EQ(sent, SentByGit(temporary.path(), paths)) << patterns;
  EXPECT_GT(sent.size(), kFolders);
  EXPECT_GT(paths.size() - sent.size(), kFolders);  // both sides have something to differ in
}

TEST_F(WorkdirListTest, LeavesOutTheOutputOfThisVeryProgram) {
  Write("train.py");
  Write("nohup.out");
  Write("sub/up.log");
  fflush(stderr);
  const UniqueFd stderr_before(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  const UniqueFd log(open((folder() / "sub/up.log").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  ASSERT_EQ(dup2(log.get(), STDERR_FILENO), STDERR_FILENO);
  const auto sent = Sent(folder());
  const auto left_out = LeftOutFor(LeftOutBy::kOwnOutput);
  ASSERT_EQ(dup2(stderr_before.get(), STDERR_FILENO), STDERR_FILENO);
  EXPECT_THAT(sent, ElementsAre("sub", "train.py"));
  EXPECT_THAT(left_out, ElementsAre("nohup.out", "sub/up.log"));
  EXPECT_THAT(Sent(folder()), ElementsAre("sub", "sub/up.log", "train.py"));
}

// HOME is the work folder; `.cache` is there only for tfdist, `.config` for others.
TEST_F(WorkdirListTest, TfdistsOwnFoldersStayHereWhereverTheyAre) {
  const char* variables[] = {"HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"};
  std::map<std::string, std::string> before;
  for (const char* name : variables) {
    if (const char* value = std::getenv(name)) before[name] = value;
    unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
  }
  setenv("HOME", folder().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  Write("train.py");
  Write("tfdist/mine");
  EXPECT_THAT(Sent(folder()), ElementsAre("tfdist", "tfdist/mine", "train.py"));
  Text(".tfdistignore", "!/.cache/\n!/.cache/tfdist/keep/\n");
  Write(".cache/tfdist/keep/name/model", 3000);
  Write(".local/state/tfdist/jobs/one.json");
  Write(".tfdist/bin/agent");
  const auto sent = Sent(folder());
  const auto left_out = LeftOutFor(LeftOutBy::kOwnFolder);
  Write(".cache/other");
  // Through a link, too.
  setenv("XDG_CACHE_HOME", (folder() / "way/to").c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  Write("caches/tfdist/hashes/of");
  fs::create_directory(folder() / "way");
  fs::create_symlink(folder() / "caches", folder() / "way/to");
  const auto with_others = Sent(folder());
  const auto in_data = ListData({.name = "all", .path = {}, .source = folder()}).entries;
  Plan elsewhere = PlanWith(folder());
  elsewhere.ssh.remote_dir = "~/";
  const size_t files = ListWorkdir(elsewhere).files;
  Write("tfdist/jobs/one");
  const size_t files_of_others = ListWorkdir(elsewhere).files;
  for (const char* name : variables) unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
  for (const auto& [name, value] : before)
    setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_THAT(sent, ElementsAre(".tfdistignore", "tfdist", "tfdist/mine", "train.py"));
  EXPECT_THAT(left_out, ElementsAre(".cache/tfdist", ".local/state/tfdist", ".tfdist"));
  EXPECT_THAT(with_others, ElementsAre(".cache", ".cache/other", ".tfdistignore", "tfdist",
                                       "tfdist/mine", "train.py", "way", "way/to"));
  EXPECT_EQ(in_data.size(), with_others.size());
  EXPECT_EQ(files, 5U);
  EXPECT_EQ(files_of_others, 4U);  // with jobs in it, it is tfdist's
}

TEST_F(WorkdirListTest, KeysAndCredentialsStayHereUnlessAnIgnoreFileBringsThemBack) {
  const std::string key = "-----BEGIN RSA PRIVATE KEY-----\nx\n-----END RSA PRIVATE KEY-----\n";
  for (const char* place :
       {".ssh/id_ed25519.pub", "a/.aws/config", ".netrc", ".config/gh/hosts.yml"})
    Write(place);
  for (const char* name : {"server.key", "a/id_test", "mine", "everybodys", "public.pem"})
    Text(name, std::string_view(name) == "public.pem" ? "-----BEGIN PUBLIC KEY-----\n" : key);
  Text("putty.ppk", "PuTTY-User-Key-File-3: ssh-ed25519\n");
  fs::permissions(folder() / "mine", fs::perms::owner_read | fs::perms::owner_write);
  fs::permissions(folder() / "everybodys", fs::perms(0644));
  EXPECT_THAT(LeftOutFor(LeftOutBy::kCredentials),
              ElementsAre(".config/gh", ".netrc", ".ssh", "a/.aws", "a/id_test", "mine",
                          "putty.ppk", "server.key"));
  Text(".tfdistignore", "!/server.key\n!/.ssh/\n");
  EXPECT_THAT(LeftOutFor(LeftOutBy::kCredentials),
              ElementsAre(".config/gh", ".netrc", "a/.aws", "a/id_test", "mine", "putty.ppk"));
  EXPECT_THAT(HowToBringBack(ListWorkdir(PlanWith(folder())), folder()),
              HasSubstr("to send a key that the program needs, write a line such as !/a/id_test "));
}

}  // namespace
}  // namespace tfdist::cli
