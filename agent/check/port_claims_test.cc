#include "agent/check/port_claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/census/census.h"
#include "agent/process/run_folder.h"
#include "agent/slot/slot_folder.h"
#include "agent/testing/child.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/testing/temporary_folder.h"
#include "wire/protocol.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;
using protocol::HostDescription;
using protocol::TaskDescription;
using testing::IsEmpty;
using testing::SizeIs;

TaskDescription TaskAt(int slot, int port) {
  TaskDescription task;
  task.task = "worker:" + std::to_string(slot);
  task.slot = slot;
  task.ports = {port};
  return task;
}

HostDescription Described(std::vector<TaskDescription> tasks, bool needs_ports) {
  HostDescription description;
  description.tasks = std::move(tasks);
  description.needs_ports = needs_ports;
  return description;
}

// Another job's slot here, with a process that has its agent's executable and its cookie, and nothing that answers.
class PortClaimsTest : public testing::Test {
 protected:
  void Run(const HostDescription& description) {
    MakePrivateFolder(slot_.path());
    fs::copy_file("/bin/sleep", slot_.executable());
    ReplaceFile(slot_.description(),
                protocol::Encode({std::string(protocol::type::kDescribe), 1, description}), 0600);
    const std::string cookie = std::string(kCookieName) + "=" + CookieValue(job_, 0);
    const std::string agent = slot_.executable().string();
    process_ = std::make_unique<Child>(std::vector{agent.c_str(), "infinity"},
                                       std::vector{cookie.c_str()});
  }

  const TemporaryFolder base_;
  // Its own in every run: processes of the whole machine are looked at.
  const std::string job_ = "test-" + RandomHex(8);
  const SlotFolder slot_{base_.path() / "jobs" / job_ / "h0"};
  std::unique_ptr<Child> process_;
};

TEST_F(PortClaimsTest, NamesTheOtherJobAndItsTask) {
  Run(Described({TaskAt(0, 1)}, true));
  const auto conflicts = FindPortConflicts({TaskAt(3, 1), TaskAt(4, 2)}, {});
  ASSERT_THAT(conflicts, SizeIs(1));
  EXPECT_EQ(conflicts[0].port, 1);
  EXPECT_EQ(conflicts[0].trouble.why,
            "port 1 of worker:3 is that of worker:0 of job " + job_ + ", which is on this host");
  EXPECT_THAT(FindPortConflicts({TaskAt(3, 1)}, {job_}), IsEmpty());
}

// Else each of two `up`s of one file could end the other one.
TEST_F(PortClaimsTest, OfTwoJobsThatAreBroughtUpFromOnePlanTheNameDecides) {
  Run(Described({TaskAt(0, 1)}, true));
  SlotInfo info;
  info.base = base_.path();
  info.job = job_;
  info.name = "test";
  info.plan_sha256 = "of both";
  WriteSlotInfo(slot_, info);
  EXPECT_THAT(FindPortConflicts({TaskAt(0, 1)}, {}, "of both"), IsEmpty());
  EXPECT_THAT(FindPortConflicts({TaskAt(0, 1)}, {}, "another"), SizeIs(1));
  ReplaceFile(slot_.committed(), "", 0600);
  EXPECT_THAT(FindPortConflicts({TaskAt(0, 1)}, {}, "of both"), SizeIs(1));
}

TEST_F(PortClaimsTest, AJobThatDoesNotNeedItsPortsHasNone) {
  Run(Described({TaskAt(0, 1)}, false));
  EXPECT_THAT(FindPortConflicts({TaskAt(0, 1)}, {}), IsEmpty());
}

TEST_F(PortClaimsTest, ASpareHostHasThePortsOfTasksThatHaveRunThere) {
  Run(Described({TaskAt(1, 1), TaskAt(2, 2)}, true));
  EXPECT_THAT(FindPortConflicts({TaskAt(0, 1), TaskAt(0, 2)}, {}), IsEmpty());
  const fs::path run = slot_.TaskFolder("worker:2") / RunFolderName(1, 1);
  fs::create_directories(run);
  WriteRunSpec(run, {});
  const auto conflicts = FindPortConflicts({TaskAt(0, 1), TaskAt(0, 2)}, {});
  ASSERT_THAT(conflicts, SizeIs(1));
  EXPECT_EQ(conflicts[0].port, 2);
}

TEST_F(PortClaimsTest, WhatItCannotReadIsNoClaim) {
  Run(Described({TaskAt(0, 1)}, true));
  ReplaceFile(slot_.description(), "damaged", 0600);
  EXPECT_THAT(FindPortConflicts({TaskAt(0, 1)}, {}), IsEmpty());
}

}  // namespace
}  // namespace tfdist::agent
