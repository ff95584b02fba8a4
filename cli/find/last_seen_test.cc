#include "cli/find/last_seen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/testing/temporary_folder.h"

namespace tfdist::cli {
namespace {

using Stage = LastSeen::Stage;

// Whoever looks has read the record before `up` writes how it ended, and finds nobody at it afterwards.
TEST(WhyItIsLeft, IsWhatUpItselfHasNotedMeanwhile) {
  const TemporaryFolder state;
  setenv("XDG_STATE_HOME", state.path().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  JobRecord record;
  record.id = "digits-20260803T120000Z-cccccc";
  record.name = "digits";
  record.created = "2026-08-03T12:00:00Z";
  record.hosts.resize(1);
  record.hosts[0].name = record.hosts[0].address = record.hosts[0].ssh = "gpu1";
  record.bases.resize(1);
  record.last_seen.stage = Stage::kStarting;
  SaveRecord(record);
  EXPECT_EQ(WhyItIsLeft(record), kUpWasKilled);
  JobRecord ended = record;
  ended.last_seen.stage = Stage::kNotStarted;
  ended.last_seen.why = "gpu1: connect: no answer";
  SaveRecord(ended);
  EXPECT_EQ(WhyItIsLeft(record), ended.last_seen.why);
  RemoveRecord(record.id);
  EXPECT_EQ(WhyItIsLeft(record), kUpHasEnded);
}

}  // namespace
}  // namespace tfdist::cli
