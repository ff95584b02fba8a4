#include "cli/tensorboard/event_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::cli {
namespace {

using std::string_literals::operator""s;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(EventFiles, AreReadBetweenComplaints) {
  EXPECT_THAT(ParseEventFiles("12 a/events.out.tfevents.1.h\0"
                              "find: 'x': Permission denied\n3 b c\0"s),
              ElementsAre(EventFile{"a/events.out.tfevents.1.h", 12}, EventFile{"b c", 3}));
  EXPECT_THAT(ParseEventFiles(""), IsEmpty());
  EXPECT_THAT(ParseEventFiles("find: 'logs': No such file or directory\n"), IsEmpty());
}

TEST(EventFiles, ThatLeadOutOfTheirFolderArePassedOver) {
  EXPECT_THAT(ParseEventFiles("1 ../tfevents\0"
                              "1 /etc/tfevents\0"
                              "1 a/../../tfevents\0"
                              "1 \0x y\0-1 a\0"
                              "99999999999999999999 a\0"s),
              IsEmpty());
}

Site ThisHost() {
  Site site;
  site.host.name = "here";
  site.host.local = true;
  return site;
}

uint64_t BytesBelow(const std::filesystem::path& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

TEST(EventFilesCopy, GrowsWithTheFilesAndKeepsItsLimits) {
  const TemporaryFolder folder;
  const auto first = folder.path() / "a/tfevents.1";
  std::filesystem::create_directories(first.parent_path());
  ReplaceFile(first, "0123456789", 0600);
  ReplaceFile(folder.path() / "tfevents.2", "0123456789", 0600);
  HostTalk talk(ThisHost(), {});
  EventFilesCopy copy(talk, folder.path().string(),
                      {.file_bytes = 4, .update_bytes = 6, .all_bytes = 21});
  EXPECT_THAT(copy.Update(), IsEmpty());
  EXPECT_EQ(BytesBelow(copy.path()), 6U);
  for (int update = 0; update < 6; ++update) EXPECT_THAT(copy.Update(), IsEmpty());
  EXPECT_EQ(BytesBelow(copy.path()), 20U);
  std::ofstream(first, std::ios::app) << "abc";
  EXPECT_THAT(copy.Update(), IsEmpty());
  EXPECT_EQ(ReadFileIfExists(copy.path() / "a/tfevents.1", 100), "0123456789a");
  const auto troubles = copy.Update();
  ASSERT_EQ(troubles.size(), 1U);
  EXPECT_THAT(troubles[0].what, testing::HasSubstr("the rest is not fetched"));
  EXPECT_THAT(copy.Update(), IsEmpty());
  EXPECT_EQ(BytesBelow(copy.path()), 21U);
}

TEST(EventFilesCopy, GoesWithItsFolder) {
  const TemporaryFolder folder;
  HostTalk talk(ThisHost(), {});
  std::filesystem::path path;
  {
    const EventFilesCopy copy(talk, folder.path().string());
    path = copy.path();
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace tfdist::cli
