#include "cli/show/kept_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kHour = 3600;

protocol::KeptFiles Three() {
  return {.files = 3, .bytes = 12'000'000, .newest = "ckpt-2000", .age_s = 22 * kHour};
}

TEST(KeptText, HostsThatKeepTheSameAreFolded) {
  EXPECT_EQ(KeptText({{"h1", Three()}, {"h2", Three()}, {"h3", {}}}),
            "{keep}: h[1-2]: 3 files, 12 MB, the newest ckpt-2000, 22h00m ago; h3: empty");
  EXPECT_EQ(KeptText({}), "");
}

TEST(KeptText, WhatCouldNotBeLookedAtIsNotEmpty) {
  protocol::KeptFiles some = Three();
  some.all = false;
  protocol::KeptFiles unknown;
  unknown.all = false;
  EXPECT_EQ(KeptText({{"h1", some}, {"h2", unknown}}),
            "{keep}: h1: more than 3 files, 12 MB; "
            "h2: files that could not be looked at");
}

JobRecord RecordOf(const std::string& id, const std::vector<std::string>& hosts, bool keeps) {
  JobRecord record;
  record.id = id;
  record.name = "digits";
  record.created = id;
  record.keeps = keeps;
  record.last_seen.stage = LastSeen::Stage::kEnded;
  for (const std::string& host : hosts) record.hosts.emplace_back().name = host;
  return record;
}

TEST(LastThatKept, IsTheNewestOfItsNameThatNamesTheFolder) {
  const JobRecord now = RecordOf("5", {"h1", "h2"}, true);
  JobRecord other = RecordOf("4", {"h9"}, true);
  other.name = "letters";
  const std::vector<JobRecord> records = {RecordOf("1", {"h7"}, true),
                                          RecordOf("2", {"h2", "h3"}, true),
                                          RecordOf("3", {"h8"}, false), other, now};
  EXPECT_EQ(LastThatKept(now, records)->id, "2");
  EXPECT_EQ(LastThatKept(now, {now}), nullptr);
  EXPECT_THAT(HostsLeftBehind(now, records[1]), ElementsAre("h3"));
  EXPECT_THAT(HostsLeftBehind(now, now), IsEmpty());
}

// An `up` that was killed while it packed must not open what another project has kept.
TEST(LastThatKept, IsNoneThatNeverBeganUnlessItMayBeAnotherProjects) {
  JobRecord first = RecordOf("1", {"h1"}, true);
  first.origin.workdir = "/first";
  JobRecord killed = RecordOf("2", {"h1"}, true);
  killed.origin.workdir = "/second";
  killed.last_seen.stage = LastSeen::Stage::kStarting;
  JobRecord now = RecordOf("3", {"h1"}, true);
  now.origin.workdir = "/second";
  EXPECT_EQ(LastThatKept(now, {first, killed})->id, "1");
  now.origin.workdir = "/first";
  EXPECT_EQ(LastThatKept(now, {first, killed})->id, "2");
  killed.last_seen.stage = LastSeen::Stage::kNotStarted;
  EXPECT_EQ(LastThatKept(now, {first, killed})->id, "1");
}

TEST(FilesLeftBehind, AreOnHostsOfTheLastJobThatThisOneHasNot) {
  const JobRecord now = RecordOf("5", {"h2", "h3"}, false);
  JobRecord last = RecordOf("4", {"h1", "h2"}, false);
  last.bases = {"/home/u/.cache/tfdist", "/home/u/.cache/tfdist"};
  last.tasks = {{"worker:0", 0, {}}, {"worker:1", 1, {}}};
  const auto warning = FilesLeftBehind(now, {RecordOf("3", {"h7"}, false), last, now});
  ASSERT_TRUE(warning);
  EXPECT_EQ(
      warning->text,
      "the last job called digits (4) ran on h1 too: what its tasks wrote there, if anything, no "
      "task of this job finds");
  EXPECT_FALSE(FilesLeftBehind(last, {now, last})) << "where it lay was never learned";
  last.bases[0].clear();
  EXPECT_FALSE(FilesLeftBehind(now, {last})) << "`clean` has removed it";
  last.bases[0] = "/b";
  last.tasks[0].folder = "/data/run";
  EXPECT_FALSE(FilesLeftBehind(now, {last})) << "its task wrote elsewhere";
  last.tasks[0].folder.clear();
  last.last_seen.stage = LastSeen::Stage::kNotStarted;
  EXPECT_FALSE(FilesLeftBehind(now, {last}));
}

TEST(TasksThatMoved, AreOnAnotherOfTheSameHosts) {
  JobRecord last = RecordOf("1", {"h1", "h2", "h3"}, true);
  for (int slot = 0; slot < 3; ++slot) {
    last.tasks.emplace_back().id = "worker:" + std::to_string(slot);
    last.tasks.back().slot = slot;
  }
  JobRecord now = RecordOf("2", {"h2", "h1", "h4"}, true);
  now.tasks = last.tasks;
  now.tasks.emplace_back().id = "worker:3";
  const auto moved = TasksThatMoved(now, last);
  ASSERT_EQ(moved.size(), 2U);  // that of h3 is left behind
  EXPECT_EQ(moved[1].id, "worker:1");
  EXPECT_EQ(moved[1].slot, 1);
  EXPECT_THAT(TasksThatMoved(last, last), IsEmpty());
}

TEST(OtherFolder, IsThatOfTheLastJobWhereThisOneHasAnother) {
  JobRecord last = RecordOf("1", {"h1"}, true);
  JobRecord now = RecordOf("2", {"h1"}, true);
  last.origin.workdir = "/home/me/first";
  EXPECT_EQ(OtherFolder(now, last), "");
  now.origin.workdir = "/home/me/first";
  EXPECT_EQ(OtherFolder(now, last), "");
  now.origin.workdir = "/home/me/second";
  EXPECT_EQ(OtherFolder(now, last), "/home/me/first");
}

}  // namespace
}  // namespace tfdist::cli
