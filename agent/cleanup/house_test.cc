#include "agent/cleanup/house.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "agent/census/census.h"
#include "agent/census/left_file.h"
#include "agent/slot/slot_folder.h"
#include "agent/testing/child.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<std::string>;

// All processes of this machine are looked at.
const std::string kHouseJob = "a-20260801T120000Z-" + RandomHex(3);

void Write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

Paths WhysOf(const protocol::Removal& removal) {
  Paths whys;
  for (const protocol::KeptPath& kept : removal.kept) {
    EXPECT_NE(kept.remedy, "") << kept.why;
    whys.push_back(kept.why);
  }
  return whys;
}

class HouseTest : public testing::Test {
 protected:
  fs::path MakeSlot(const std::string& job, int slot) const {
    fs::path folder = base_ / "jobs" / layout::SlotPath(job, slot);
    fs::create_directories(folder);
    fs::copy_file("/bin/sleep", folder / "agent");
    return folder;
  }
  [[nodiscard]] fs::path MakeAgent() const {
    fs::create_directories(base_ / "bin");
    fs::path agent = base_ / "bin" / Sha256Hex("an agent");
    fs::copy_file("/bin/sleep", agent);
    return agent;
  }
  [[nodiscard]] protocol::SlotList Look(bool closely = true) const {
    return ListSlots({{{base_.string()}}, closely, ""});
  }
  [[nodiscard]] protocol::Removal Clean(Paths jobs, bool caches_stay = false) const {
    return RemoveSlots({{{base_.string()}}, std::move(jobs), -1, caches_stay});
  }
  [[nodiscard]] protocol::Removal Purge(const std::string& job, int slot) const {
    return RemoveSlots({{{base_.string()}}, {job}, slot, true, true});
  }

  const TemporaryFolder temporary_;
  const fs::path base_ = fs::canonical(temporary_.path()) / "tfdist";
};

// For as long as it lives.
class BindMount {
 public:
  BindMount(const fs::path& source, const fs::path& point) : point_(point) {
    fs::create_directories(point);
    works_ = mount(source.c_str(), point.c_str(), nullptr, MS_BIND, nullptr) == 0;
  }
  BindMount(const BindMount&) = delete;
  ~BindMount() { umount2(point_.c_str(), MNT_DETACH); }
  [[nodiscard]] bool works() const { return works_; }

 private:
  fs::path point_;
  bool works_ = false;
};

// As an agent in the slot's folder runs.
class Running {
 public:
  explicit Running(const fs::path& program)
      : program_(program), child_({program_.c_str(), "1000"}, {}) {}

 private:
  std::string program_;
  Child child_;
};

TEST_F(HouseTest, TellsSizesAndWhetherTasksHaveWritten) {
  const fs::path with = MakeSlot("with-20260803T120000Z-a1b2c3", 3);
  const fs::path without = MakeSlot("without-20260802T120000Z-a1b2c3", 12);
  Write(with / "work/model", RandomHex(500'000));
  Write(with / "agent.log", "");
  Write(base_ / "jobs/x/h1/data", "no slot of ours");
  const auto list = Look();
  ASSERT_EQ(list.slots.size(), 2U);
  EXPECT_EQ(list.slots[0].job, "with-20260803T120000Z-a1b2c3");
  EXPECT_EQ(list.slots[0].slot, 3);
  EXPECT_GE(list.slots[0].size_kib, 900U);
  EXPECT_TRUE(list.slots[0].has_task_files);
  EXPECT_EQ(list.slots[1].slot, 12);
  EXPECT_FALSE(list.slots[1].has_task_files);
  EXPECT_FALSE(list.slots[0].out_of_time);
  EXPECT_EQ(list.caches_kib, 0U);
  EXPECT_EQ(Look(false).slots[0].size_kib, 0U);
  Write(base_ / "files" / Sha256Hex("a file"), RandomHex(50'000));
  EXPECT_GE(Look().caches_kib, 90U);
}

TEST_F(HouseTest, ALookThatTakesTooLongIsToldApartFromFilesThatWereFound) {
  Write(MakeSlot("with-20260803T120000Z-a1b2c3", 3) / "work/model", "");
  for (const LookLimits& limits : {LookLimits{.one_slot = std::chrono::seconds(0)},
                                   LookLimits{.all = std::chrono::seconds(0)}}) {
    const auto list = ListSlots({{{base_.string()}}, true, ""}, limits);
    ASSERT_EQ(list.slots.size(), 1U);
    EXPECT_TRUE(list.slots[0].has_task_files);
    EXPECT_TRUE(list.slots[0].out_of_time);
  }
}

// Of a link to it nothing would be freed.
TEST_F(HouseTest, CountsAnAgentOnceThoughASlotHasALinkToIt) {
  const fs::path agent = MakeAgent();
  const fs::path slot = MakeSlot(kHouseJob, 0);
  fs::remove(slot / "agent");
  fs::create_hard_link(agent, slot / "agent");
  const auto list = Look();
  const uint64_t agent_kib = fs::file_size(agent) >> 10;
  EXPECT_GE(list.caches_kib, agent_kib);
  EXPECT_LT(list.slots.at(0).size_kib, agent_kib);
}

TEST_F(HouseTest, SaysWhichIdleSlotsAnotherHostMayRun) {
  const fs::path slot = MakeSlot(kHouseJob, 0);
  const auto is_leased = [&] { return Look(false).slots.at(0).leased; };
  EXPECT_FALSE(is_leased());  // its job has ended
  Write(slot / "key", "key");
  EXPECT_TRUE(is_leased());
  fs::last_write_time(slot, fs::file_time_type::clock::now() - std::chrono::hours(4));
  EXPECT_FALSE(is_leased());
}

// `clean` left it for three hours: "a host that was not looked at may run it".
TEST_F(HouseTest, AnOrphanedSlotOfThisMachineIsNotLeased) {
  const Machine here{"host id", "02:00:00:00:00:01", "boot"};
  const SlotFolder slot(MakeSlot(kHouseJob, 0));
  const auto is_leased = [&] {
    return ListSlots({{{base_.string()}}, false, ""}, {}, here).slots.at(0).leased;
  };
  const auto made_by = [&](const Machine& machine) {
    SlotInfo info;
    info.base = base_.string();
    info.job = kHouseJob;
    info.machine = machine;
    WriteSlotInfo(slot, info);
  };
  Write(slot.key(), "key");
  made_by(here);
  EXPECT_TRUE(is_leased());
  Write(slot.orphaned(), "nothing was heard");
  EXPECT_FALSE(is_leased());
  made_by({"host id", "02:00:00:00:00:02", "boot"});
  EXPECT_TRUE(is_leased());
}

TEST_F(HouseTest, KeepsDataThatAJobOfAnotherMachineMayUse) {
  const fs::path slot = MakeSlot(kHouseJob, 0);
  const fs::path data = base_ / "data" / Sha256Hex("data");
  Write(slot / "key", "key");
  Write(data / "content/part", "data");
  for (const char* name : {"lock", "done"}) Write(data / name, "");
  for (const fs::path& folder : {data, data.parent_path(), base_}) {
    fs::permissions(folder, fs::perms::owner_all);
  }
  const auto used = Clean({});
  EXPECT_EQ(used.in_use, Paths{data.string() + ": a job may use it"});
  EXPECT_EQ(WhysOf(used), Paths{});
  EXPECT_TRUE(fs::exists(data / "content/part"));
  fs::last_write_time(slot, fs::file_time_type::clock::now() - std::chrono::hours(4));
  EXPECT_EQ(WhysOf(Clean({})), Paths{});
  EXPECT_FALSE(fs::exists(data.parent_path()));
}

TEST_F(HouseTest, RemovesTheNamedJobsThatDoNotRun) {
  const fs::path agent = MakeAgent();
  const std::string other = "b-20260801T120000Z-a1b2c3";
  const std::string third = "c-20260801T120000Z-a1b2c3";
  for (const std::string& job : {kHouseJob, other, third}) MakeSlot(job, 0);
  {
    const Running running(base_ / "jobs" / kHouseJob / "h0/agent");
    EXPECT_TRUE(Look(false).slots.at(0).running);
    EXPECT_FALSE(Look(false).slots.at(1).running);
    const auto removal = Clean({kHouseJob, third});
    EXPECT_EQ(removal.removed, Paths{(base_ / "jobs" / third / "h0").string()});
    EXPECT_EQ(WhysOf(removal),
              Paths{(base_ / "jobs" / kHouseJob / "h0: something of it runs").string()});
    EXPECT_EQ(removal.in_use, Paths{base_.string() + ": other jobs use it"});
  }
  EXPECT_TRUE(Clean({}, true).removed.empty());
  EXPECT_TRUE(fs::exists(agent));
  EXPECT_EQ(Clean({}).removed, Paths{(base_ / "bin").string()});
  const auto rest = Clean({kHouseJob, other});
  EXPECT_EQ(rest.removed.size(), 3U);  // two jobs, the folder itself
  EXPECT_TRUE(rest.kept.empty());
  EXPECT_FALSE(fs::exists(base_));
}

// Two names of one machine are cleaned at once.
TEST_F(HouseTest, AnotherLookAtTheFoldersKeepsNoCaches) {
  const fs::path agent = MakeAgent();
  const auto run_as = [&](const char* role) {
    return std::make_unique<Child>(std::vector<const char*>{agent.c_str(), role, "-f", "/dev/null"},
                                   std::vector<const char*>{});
  };
  fs::copy_file("/usr/bin/tail", agent, fs::copy_options::overwrite_existing);
  const auto start = run_as("-q");
  EXPECT_EQ(Clean({}).in_use, Paths{base_.string() + ": other jobs use it"});
  kill(start->pid(), SIGKILL);
  start->Wait();
  const auto look = run_as("house");  // for tail(1) a file that is missing
  EXPECT_TRUE(Clean({}).kept.empty());
  EXPECT_FALSE(fs::exists(agent));
}

TEST_F(HouseTest, KeepsASlotOfWhichAnOrphanRunsAndNoOther) {
  const fs::path one = MakeSlot(kHouseJob, 1);
  const fs::path twelve = MakeSlot(kHouseJob, 12);
  const std::string cookie = fmt::format("{}={}", kCookieName, CookieValue(kHouseJob, 12));
  const Child orphan({"/bin/sleep", "1000"}, {cookie.c_str()});
  EXPECT_EQ(Clean({kHouseJob}).removed, Paths{one.string()});
  EXPECT_TRUE(fs::exists(twelve));
}

// What survived SIGKILL: with its memory gone nothing but the note shows whose it is, and the next `down` needs that.
TEST_F(HouseTest, KeepsASlotOfWhichACensusLeftSomethingForAsLongAsThatRuns) {
  const fs::path slot = MakeSlot(kHouseJob, 0);
  Child nobodys({"/bin/sleep", "1000"}, {});
  WriteLeft(SlotFolder(slot).left(), {*ReadProcess(nobodys.pid())});
  EXPECT_EQ(WhysOf(Purge(kHouseJob, 0)), Paths{fmt::format("{}: pid {} (sleep) of it still runs",
                                                           slot.string(), nobodys.pid())});
  EXPECT_TRUE(fs::exists(SlotFolder(slot).left()));
  kill(nobodys.pid(), SIGKILL);
  nobodys.Wait();
  EXPECT_EQ(Purge(kHouseJob, 0).removed, Paths{slot.string()});
}

// A data set that is mounted there is none of the job's, whoever has mounted it. A bind mount may be of the same disk.
TEST_F(HouseTest, RemovesNoFolderInWhichSomethingIsMounted) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, which may mount";
  const fs::path slot = MakeSlot(kHouseJob, 0);
  const fs::path kept = base_ / "keep/a";
  const fs::path set_up = base_ / "setup/0123456789abcdef-any";
  const fs::path data = fs::canonical(temporary_.path()) / "data set";
  Write(data / "images", "years of work");
  Write(slot / "work/model", "results");
  ASSERT_EQ(chmod(data.c_str(), 0500), 0);
  const auto why = [](const fs::path& folder, const fs::path& point) {
    return fmt::format("{}: something is mounted at {}: unmount it first", folder.string(),
                       point.string());
  };
  for (const auto& [folder, point] : {std::pair(slot, slot / "work/a set"),
                                      {kept, kept / "set"},
                                      {set_up, set_up / "1/lib"},
                                      {slot, slot / "work"}}) {
    const BindMount mount(data, point);
    ASSERT_TRUE(mount.works());
    const Paths left = WhysOf(folder == set_up ? Clean({}) : Purge(kHouseJob, 0));
    ASSERT_FALSE(left.empty()) << point;
    EXPECT_EQ(left[0], why(folder, point));
    EXPECT_TRUE(fs::exists(data / "images")) << point;
    EXPECT_EQ(fs::status(data).permissions(), fs::perms{0500}) << point;
  }
}

TEST_F(HouseTest, AnotherAccountKeepsNoFolder) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, which may read every environment";
  MakeSlot(kHouseJob, 1);
  const std::string cookie = fmt::format("{}={}", kCookieName, CookieValue(kHouseJob, 1));
  const Child stranger(
      {"/usr/bin/setpriv", "--reuid=12345", "--clear-groups", "/bin/sleep", "1000"},
      {cookie.c_str()});
  while (IsOfThisAccount(stranger.pid())) usleep(1000);
  EXPECT_TRUE(Clean({kHouseJob}).kept.empty());
}

// What a slot is known by goes last.
TEST_F(HouseTest, FindsAgainWhatItCouldNotRemove) {
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root to make a file that another account cannot remove";
  constexpr uid_t kAccount = 12345;
  const fs::path slot = MakeSlot(kHouseJob, 0);
  Write(slot / "agent.log", "log");
  for (fs::path path = slot; path != base_.parent_path().parent_path(); path = path.parent_path()) {
    ASSERT_EQ(chown(path.c_str(), kAccount, kAccount), 0);
  }
  Write(slot / "theirs/results", "results");
  ASSERT_EQ(seteuid(kAccount), 0);
  const auto first = Clean({kHouseJob});
  const auto second = Clean({kHouseJob});
  ASSERT_EQ(seteuid(0), 0);
  for (const auto& removal : {first, second}) {
    EXPECT_TRUE(removal.removed.empty());
    ASSERT_FALSE(removal.kept.empty());
    EXPECT_EQ(removal.kept[0].why,
              fmt::format("{0}: {0}/theirs: Permission denied", slot.string()));
  }
  EXPECT_FALSE(fs::exists(slot / "agent.log"));
  ASSERT_EQ(chown((slot / "theirs").c_str(), kAccount, kAccount), 0);
  ASSERT_EQ(seteuid(kAccount), 0);
  (void)Clean({kHouseJob});
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_FALSE(fs::exists(slot));
}

TEST_F(HouseTest, LeavesWhatIsNotOurs) {
  (void)MakeAgent();
  Write(base_ / "thesis.txt", "years of work");
  (void)Clean({});
  EXPECT_TRUE(fs::exists(base_ / "thesis.txt"));
  EXPECT_FALSE(fs::exists(base_ / "bin"));
}

TEST_F(HouseTest, LeavesWhatIsNotOursInFoldersNamedAsOurs) {
  const fs::path agent = MakeAgent();
  const fs::path slot = MakeSlot(kHouseJob, 0);
  const auto write = [&](const std::string& path) {
    Write(base_ / path, "years of work");
    return base_ / path;
  };
  const std::string sha256 = Sha256Hex("a file");
  const std::vector<fs::path> ours = {
      agent,
      write("bin/." + sha256 + ".a1"),
      write("bin/.probe.0123"),
      write("files/" + sha256),
      write("files/" + sha256 + ".a1B2c3"),
      write("names/job.lock"),
      slot.parent_path(),
  };
  const std::vector<fs::path> foreign = {
      write("bin/tool"),
      write("bin/.tool.old"),
      write("files/x"),
      write("files/" + sha256 + ".old.tar"),
      write("names/x"),
      write("jobs/x/y/it"),
      write("jobs/x/h1/data"),
      write("jobs/x/h01/agent"),
      write("jobs/x/hosts/agent"),
  };
  const auto removal = Clean({kHouseJob, "x"});
  for (const fs::path& path : ours) EXPECT_FALSE(fs::exists(path)) << path;
  for (const fs::path& path : foreign) EXPECT_TRUE(fs::exists(path)) << path;
  EXPECT_EQ(removal.removed.size(), 1U);  // the slot
  EXPECT_EQ(removal.kept.size(), 3U);     // bin, files, names
}

// A link is the user's, wherever it leads.
TEST_F(HouseTest, FollowsNoLink) {
  const fs::path slot = MakeSlot(kHouseJob, 0);
  const fs::path results = temporary_.path() / "results";
  Write(results / "agent", "years of work");
  fs::create_directory_symlink(results, slot.parent_path() / "h1");
  fs::create_directory_symlink(results, slot / "out");
  EXPECT_EQ(Clean({kHouseJob}).removed, Paths{slot.string()});
  EXPECT_TRUE(Purge(kHouseJob, 1).removed.empty());
  EXPECT_TRUE(fs::exists(results / "agent"));
}

TEST_F(HouseTest, PurgeRemovesOneSlotOfOneJob) {
  MakeSlot(kHouseJob, 0);
  const fs::path slot = MakeSlot(kHouseJob, 1);
  (void)MakeAgent();
  chmod(slot.c_str(), 0500);
  EXPECT_EQ(Purge(kHouseJob, 1).removed, Paths{slot.string()});
  EXPECT_TRUE(Purge(kHouseJob, 1).removed.empty());
  EXPECT_TRUE(fs::exists(base_ / "jobs" / kHouseJob / "h0"));
  EXPECT_TRUE(fs::exists(base_ / "bin"));
}

TEST_F(HouseTest, TheLastJobOfANameTakesAlongWhatTheyKept) {
  const std::string first = "a-20260801T120000Z-a1b2c3";
  const std::string last = "a-20260802T120000Z-a1b2c3";
  for (const std::string& job : {first, last}) MakeSlot(job, 0);
  MakeSlot("a-b-20260801T120000Z-a1b2c3", 0);
  Write(base_ / "keep/a/step", "100");
  Write(base_ / "keep/a-b/step", "100");
  const protocol::SlotList list = ListSlots({{{base_.string()}}, false, "a"});
  ASSERT_EQ(list.kept.size(), 1U);
  EXPECT_EQ(std::pair(list.kept[0].files, list.kept[0].newest),
            std::pair(uint64_t{1}, std::string("step")));
  EXPECT_EQ(Purge(first, 0).removed.size(), 1U);
  (void)Clean({last});
  EXPECT_TRUE(fs::exists(base_ / "keep/a/step"));
  EXPECT_EQ(Purge(last, 0).removed, Paths{(base_ / "keep/a").string()});
  EXPECT_TRUE(Purge("-a-b", 0).removed.empty());
  EXPECT_TRUE(fs::exists(base_ / "keep/a-b/step"));
}

// As two checkpoints of a small model may be.
TEST_F(HouseTest, OfTwoKeptFilesThatChangedInOneSecondTheLaterOneIsTheNewest) {
  MakeSlot("a-20260801T120000Z-a1b2c3", 0);
  for (const std::string newest : {"x", "y"}) {
    for (const std::string name : {"x", "y"}) {
      const fs::path path = base_ / "keep/a" / name;
      Write(path, name);
      const timespec changed{.tv_sec = 1'000'000'000, .tv_nsec = name == newest ? 2 : 1};
      const std::array<timespec, 2> times = {changed, changed};
      ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
    }
    const protocol::SlotList list = ListSlots({{{base_.string()}}, false, "a"});
    ASSERT_EQ(list.kept.size(), 1U);
    EXPECT_EQ(list.kept[0].newest, newest);
  }
}

TEST_F(HouseTest, WhatNoJobOfItsNameLeadsToIsListedAndRemovedByItsName) {
  MakeSlot("a-20260801T120000Z-a1b2c3", 0);
  Write(base_ / "keep/a/step", "100");
  Write(base_ / "keep/b/step", "100");
  std::vector<std::string> names;
  for (const auto& kept : Look().kept_names) names.push_back(kept.name);
  std::ranges::sort(names);
  EXPECT_EQ(names, (Paths{"a", "b"}));
  EXPECT_EQ(RemoveSlots({{{base_.string()}}, {}, -1, true, false, {"a", "b"}}).removed,
            Paths{(base_ / "keep/b").string()});
  EXPECT_TRUE(fs::exists(base_ / "keep/a/step"));
  EXPECT_THROW(RemoveSlots({{{base_.string()}}, {}, -1, true, false, {"../b"}}), Error);
}

TEST_F(HouseTest, TakesNoIdThatLeadsElsewhere) {
  EXPECT_THROW(Purge("../x", 0), Error);
  EXPECT_THROW(Clean({"a/b"}), Error);
}

}  // namespace
}  // namespace tfdist::agent
