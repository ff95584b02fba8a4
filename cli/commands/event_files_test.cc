#include "cli/commands/event_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tfdist::cli
