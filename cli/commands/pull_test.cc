#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/failures.h"
#include "base/testing/temporary_folder.h"
#include "cli/link/pace.h"
#include "cli/pull/local_copy.h"
#include "cli/pull/remote_files.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

std::string Content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Records(std::initializer_list<std::string> records) {
  std::string text;
  for (const std::string& record : records) text += record + '\0';
  return text;
}

TEST(RemoteFiles, AreReadWithAllThatAPathMayHold) {
  const auto files =
      ParseRemoteFiles(Records({"12:640 1700000000000000001 out/a b\n.txt", "0 -5 x", "end"}))
          .files;
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].path, "out/a b\n.txt");
  EXPECT_EQ(files[0].size_bytes, 12u);
  EXPECT_EQ(files[0].changed_ns, 1700000000000000001);
  EXPECT_EQ(files[0].mode, 0640u);
  EXPECT_EQ(files[1].changed_ns, -5);
  EXPECT_EQ(files[1].mode, 0666u);
  EXPECT_EQ(files[1].inode_changed_ns, 0);
  EXPECT_EQ(ParseRemoteFiles(Records({"0:600 -5:7 x", "end"})).files[0].inode_changed_ns, 7);
  EXPECT_THROW(ParseRemoteFiles(Records({"0:600 -5:x x", "end"})), ProtocolError);
  EXPECT_TRUE(ParseRemoteFiles(Records({"0 -5 x", "end"})).is_old);
  EXPECT_FALSE(ParseRemoteFiles(Records({"0:600 -5 x", "end"})).is_old);
  EXPECT_TRUE(ParseRemoteFiles(Records({"end"})).files.empty());
}

TEST(RemoteFiles, APathThatLeadsOutOfTheFolderIsRefused) {
  for (const char* path :
       {"/etc/passwd", "../x", "a/../../x", "a/..", ".", "a//b", "a/", "", "./a"}) {
    EXPECT_THROW(ParseRemoteFiles(Records({std::string("1 1 ") + path, "end"})), ProtocolError)
        << path;
  }
  EXPECT_THROW(ParseRemoteFiles(Records({"x 1 a", "end"})), ProtocolError);
  EXPECT_THROW(ParseRemoteFiles(Records({"-1 1 a", "end"})), ProtocolError);
}

TEST(RemoteFiles, AListWithoutItsEndIsNone) {
  EXPECT_THROW(ParseRemoteFiles("yes\n"), Error);
  EXPECT_THROW(ParseRemoteFiles(Records({"1 1 a"})), Error);
  EXPECT_THROW(ParseRemoteFiles(""), Error);
}

RemoteFile LinkTo(const std::string& path, const std::string& target) {
  RemoteFile link;
  link.path = path;
  link.target = target;
  return link;
}

// A hostile host's: each link of the chain costs one look.
TEST(RemoteFiles, LinksOfAChainAreFollowedAsTheKernelDoesNotToItsEnd) {
  constexpr int kLinks = 200'000;
  constexpr size_t kMostFollowed = 40;
  std::vector<RemoteFile> files;
  for (int at = 0; at < kLinks; ++at) {
    files.push_back(LinkTo(fmt::format("l{}", at), fmt::format("l{}", at + 1)));
  }
  const auto wanted = WithTargets({"l0", "l5"}, files);
  EXPECT_EQ(wanted.size(), 2 * (1 + kMostFollowed));
  EXPECT_EQ(wanted[1 + kMostFollowed], "l40");
  EXPECT_EQ(wanted.back(), "l45");
}

TEST(RemoteFiles, LinksInACircleAreNotFollowedForEver) {
  const std::vector<RemoteFile> files = {LinkTo("out/a", "b"), LinkTo("out/b", "../out/a")};
  const auto wanted = WithTargets({"out/a"}, files);
  EXPECT_EQ(wanted.size(), 41u);
  EXPECT_EQ(wanted[1], "out/b");
  EXPECT_EQ(wanted[2], "out/a");
}

TEST(SentFiles, AreTakenApartInWhateverPiecesTheyCome) {
  const std::string stream = "3\nabc2\nde0\n0\n1\n\n-1\n-2\n";
  for (size_t cut = 1; cut <= stream.size(); ++cut) {
    std::string text;
    SentFiles sent(
        {5, 0, 1, 0, 0},
        [&](size_t at, std::string_view bytes) { text += std::to_string(at) + std::string(bytes); },
        [&](size_t /*at*/, FileEnd end) {
          text += end == FileEnd::kWhole ? "<+>" : end == FileEnd::kChanged ? "<->" : "<no>";
        });
    for (size_t at = 0; at < stream.size(); at += cut) sent.Take(stream.substr(at, cut));
    std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
    EXPECT_EQ(text, "abcde<+><+>\n<-><no>") << cut;
    EXPECT_EQ(sent.ended(), 4u);
  }
}

TEST(SentFiles, WhatIsNoPieceIsRefused) {
  for (const char* stream :
       {"x\n", "12345678901234567890123\n", "\n", "0\n0\n", "-3\n", "6\n", "h1\n", "3\nabc3\n"}) {
    SentFiles sent(
        {5}, [](size_t, std::string_view) {}, [](size_t, FileEnd) {});
    EXPECT_THROW(sent.Take(stream), ProtocolError) << stream;
  }
}

TEST(SentFiles, HolesCountAsTheirBytes) {
  std::string text;
  const auto take = [&](std::string_view stream, uint64_t limit) {
    SentFiles sent(
        {limit}, [&](size_t /*at*/, std::string_view bytes) { text += bytes; },
        [&](size_t /*at*/, FileEnd /*end*/) { text += "."; });
    sent.SetOnHole([&](size_t /*at*/, uint64_t bytes) { text += fmt::format("<{}>", bytes); });
    for (const char& byte : stream) sent.Take({&byte, 1});
  };
  take("h4096\n2\nabh10\n0\n", 4108);
  EXPECT_EQ(text, "<4096>ab<10>.");
  EXPECT_THROW(take("h4096\n2\nabh10\n0\n", 4107), ProtocolError);
  EXPECT_THROW(take("h-1\n", 1), ProtocolError);
  EXPECT_THROW(take("h\n", 1), ProtocolError);
}

TEST(SentFiles, MayGrowWhereTheAgentIsOld) {
  std::string text;
  SentFiles sent(
      {1, 1}, [&](size_t at, std::string_view bytes) { text += std::to_string(at) += bytes; },
      [](size_t, FileEnd) {}, 3);
  sent.Take("2\nab2\ncd0\n1\ne0\n");
  EXPECT_EQ(text, "0ab0cd1e");
  SentFiles too_many(
      {1, 1}, [](size_t, std::string_view) {}, [](size_t, FileEnd) {}, 3);
  too_many.Take("3\nabc0\n");
  EXPECT_THROW(too_many.Take("3\nabc"), ProtocolError);
}

TEST(RemoteFiles, ALinkHasItsTarget) {
  const auto files =
      ParseRemoteFiles(Records({"link:777 5 out/latest", "ck 5", "1 2 x", "end"})).files;
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].path, "out/latest");
  EXPECT_EQ(files[0].target, "ck 5");
  EXPECT_EQ(files[1].target, "");
  EXPECT_THROW(ParseRemoteFiles(Records({"link 5 ../x", "a", "end"})), ProtocolError);
  EXPECT_THROW(ParseRemoteFiles(Records({"link 5 x", "", "end"})), ProtocolError);
}

TEST(LinkLeadsOut, LinksThatStayInTheFolderDoNot) {
  const auto leads_out = [](const std::string& path, const std::string& target) {
    return LinkLeadsOut({.path = path, .target = target});
  };
  EXPECT_FALSE(leads_out("latest", "ck-5"));
  EXPECT_FALSE(leads_out("out/best", "../ck-5/w"));
  EXPECT_FALSE(leads_out("out/deep/top", "../.."));
  EXPECT_TRUE(leads_out("latest", "/etc"));
  EXPECT_TRUE(leads_out("latest", ".."));
  EXPECT_TRUE(leads_out("out/x", "../../y"));
  EXPECT_TRUE(leads_out("a/b/c/x", "top/../.."));  // top -> ../../..
}

TEST(RemoteFiles, FoldersAreLimitedInDepthAndNumber) {
  std::string deep;
  for (int level = 0; level < 64; ++level) deep += "d/";
  EXPECT_EQ(ParseRemoteFiles(Records({"1 1 " + deep + "x", "end"})).files.size(), 1u);
  EXPECT_THROW(ParseRemoteFiles(Records({"1 1 " + deep + "d/x", "end"})), ProtocolError);
  std::string many;
  for (int number = 0; number < 100'001; ++number) {
    many += "1 1 " + std::to_string(number) + "/a/x" + '\0';
  }
  EXPECT_THROW(ParseRemoteFiles(many + Records({"end"})), ProtocolError);
  const RemoteListing listing = ParseRemoteFiles(Records({"folder:700 7 a", "1:600 1 a/x", "end"}));
  ASSERT_EQ(listing.folders.size(), 1u);
  EXPECT_EQ(listing.folders[0].mode, 0700u);
}

TEST(Pace, IsTooSlowWhenLessThan64KibCameInAMinute) {
  using namespace std::chrono_literals;
  const TimePoint begin;
  Pace pace(begin);
  for (int second = 1; second < 60; ++second) pace.Add(1, 0, begin + second * 1s);
  EXPECT_EQ(pace.until(), begin + 60s);
  pace.Add(64 << 10, 0, begin + 59s);
  EXPECT_EQ(pace.until(), begin + 119s);
  pace.Add(0, 64, begin + 100s);
  EXPECT_EQ(pace.until(), begin + 160s);
  Pace slow(begin, 10min);
  slow.Add(64 << 10, 0, begin + 599s);
  EXPECT_EQ(slow.until(), begin + 1199s);
}

TEST(WithTargets, FollowsAsManyLinksAsTheKernel) {
  std::vector<RemoteFile> files = {{.path = "a", .target = "b"}, {.path = "b", .target = "d/c"}};
  EXPECT_EQ(WithTargets({"a"}, files), (std::vector<std::string>{"a", "b", "d/c"}));
  files.clear();
  for (int number = 0; number < 100'000; ++number) {
    files.push_back({.path = std::to_string(number), .target = std::to_string(number + 1)});
  }
  EXPECT_EQ(WithTargets({"0"}, files).size(), 41u);
  files = {{.path = "round", .target = "round"}};
  EXPECT_EQ(WithTargets({"round"}, files).size(), 41u);
}

class LocalCopyTest : public testing::Test {
 protected:
  LocalCopyTest() {
    setenv("XDG_STATE_HOME", state_.path().c_str(), 1);  // NOLINT: one thread
    place_.emplace(folder_.path(), "job");
  }

  const RemoteFile file_{"out/model.bin", 6, 1'700'000'000'000'000'001, ""};
  TemporaryFolder state_;
  TemporaryFolder folder_;
  fs::path path_ = folder_.path() / "out/model.bin";
  std::optional<LocalPlace> place_;
};

TEST_F(LocalCopyTest, GoesOnWhereItWasLeft) {
  {
    LocalCopy copy(*place_, file_);
    EXPECT_EQ(copy.offset(), 0u);
    copy.Write("abc");
    EXPECT_FALSE(copy.Finish());
  }
  EXPECT_FALSE(fs::exists(path_));
  LocalCopy copy(*place_, file_);
  EXPECT_EQ(copy.offset(), 3u);
  copy.Write("def, and what was written since");
  EXPECT_TRUE(copy.Finish());
  EXPECT_EQ(Content(path_), "abcdef");
  EXPECT_TRUE(LocalCopy(*place_, file_).was_there());
}

TEST_F(LocalCopyTest, FilesFromBefore1970AndWithLongNamesComeWhole) {
  const RemoteFile old{std::string(255, 'n'), 0, -5, ""};
  EXPECT_TRUE(LocalCopy(*place_, old).Finish());
  EXPECT_TRUE(LocalCopy(*place_, old).was_there());
}

TEST_F(LocalCopyTest, AnotherVersionOfTheFileBeginsAnew) {
  LocalCopy(*place_, file_).Write("abc");
  RemoteFile newer = file_;
  ++newer.changed_ns;
  LocalCopy copy(*place_, newer);
  EXPECT_EQ(copy.offset(), 0u);
  copy.Write("ABCDEF");
  EXPECT_TRUE(copy.Finish());
  EXPECT_EQ(Content(path_), "ABCDEF");
  EXPECT_FALSE(LocalCopy(*place_, file_).was_there());
}

TEST_F(LocalCopyTest, AnEmptyFileIsMade) {
  EXPECT_TRUE(LocalCopy(*place_, {"empty", 0, 1, ""}).Finish());
  EXPECT_TRUE(fs::exists(folder_.path() / "empty"));
}

mode_t ModeOf(const fs::path& path) {
  struct stat info {};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST_F(LocalCopyTest, FoldersComeWithTheFirstByteAndModesAreNeverWider) {
  const mode_t before = umask(027);
  LocalPlace place(folder_.path(), "job", {{"out", 0, 5, "", 0700}});
  umask(before);
  RemoteFile file = file_;
  file.mode = 04755;
  LocalCopy copy(place, file);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  copy.Write("abc");
  for (const auto& entry : fs::directory_iterator(path_.parent_path())) {
    EXPECT_EQ(ModeOf(entry.path()), 0600u);  // the part
  }
  copy.Write("def");
  EXPECT_TRUE(copy.Finish());
  EXPECT_EQ(ModeOf(path_), 0750u);
  place.Finish();
  EXPECT_EQ(ModeOf(path_.parent_path()), 0700u);
  struct stat info {};
  ASSERT_EQ(stat(path_.parent_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mtim.tv_nsec, 5);
}

TEST_F(LocalCopyTest, FoldersOfAnInterruptedPullGetTheirModesAndTimesFromTheNextOne) {
  const mode_t before = umask(022);
  {
    LocalPlace interrupted(folder_.path(), "job");
    interrupted.MakeFoldersOf("a/b/file");
    interrupted.MakeFoldersOf("mine/file");
  }
  fs::rename(folder_.path() / "mine", folder_.path() / "moved");
  fs::create_directory(folder_.path() / "mine");
  chmod((folder_.path() / "mine").c_str(), 0750);
  LocalPlace place(folder_.path(), "job",
                   {{"a", 0, 5, "", 0755}, {"a/b", 0, 6, "", 0711}, {"mine", 0, 7, "", 0777}});
  umask(before);
  place.Finish();
  EXPECT_EQ(ModeOf(folder_.path() / "a"), 0755u);
  EXPECT_EQ(ModeOf(folder_.path() / "a/b"), 0711u);
  EXPECT_EQ(ModeOf(folder_.path() / "mine"), 0750u);
  chmod((folder_.path() / "a").c_str(), 0700);  // by the user
  std::ofstream(folder_.path() / "a/new") << "mine";
  place.Finish();
  EXPECT_EQ(ModeOf(folder_.path() / "a"), 0700u);
  struct stat info {};
  ASSERT_EQ(stat((folder_.path() / "a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mtim.tv_nsec, 5);
}

TEST_F(LocalCopyTest, AFolderThatIsALinkOrOfAnotherAccountIsRefused) {
  TemporaryFolder elsewhere;
  const fs::path link = folder_.path() / "worker-0";
  fs::create_directory_symlink(elsewhere.path(), link);
  EXPECT_THROW(LocalPlace(link, "job"), Error);
  EXPECT_TRUE(fs::is_empty(elsewhere.path()));
  if (geteuid() != 0) GTEST_SKIP() << "cannot give a folder away";
  ASSERT_EQ(chown(elsewhere.path().c_str(), 12345, 12345), 0);
  EXPECT_THROW(LocalPlace(elsewhere.path(), "job"), Error);
}

TEST_F(LocalCopyTest, AFolderThatAnotherAccountHasReplacedMeanwhileIsNotWrittenTo) {
  TemporaryFolder elsewhere;
  const fs::path path = folder_.path() / "worker-0";
  LocalPlace place(path, "job");
  EXPECT_EQ(ModeOf(path), 0700u);
  fs::rename(path, folder_.path() / "moved");
  fs::create_directory_symlink(elsewhere.path(), path);
  LocalCopy copy(place, file_);
  copy.Write("abcdef");
  EXPECT_TRUE(copy.Finish());
  CopyLink(place, {.path = "latest", .target = "out"});
  EXPECT_TRUE(fs::is_empty(elsewhere.path()));
  EXPECT_EQ(Content(folder_.path() / "moved/latest/model.bin"), "abcdef");
}

TEST_F(LocalCopyTest, WhatTheDiskHasNoRoomForIsRefused) {
  EXPECT_THROW(CheckRoom(folder_.path(), UINT64_MAX, ""), Error);
  CheckRoom(folder_.path(), 1, "");
}

TEST_F(LocalCopyTest, LinksAreNotFollowed) {
  TemporaryFolder elsewhere;
  fs::create_directory_symlink(elsewhere.path(), folder_.path() / "out");
  EXPECT_THROW(LocalCopy(*place_, file_).Write("x"), Error);
  EXPECT_TRUE(fs::is_empty(elsewhere.path()));
}

}  // namespace
}  // namespace tfdist::cli
