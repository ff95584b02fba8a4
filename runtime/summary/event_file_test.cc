#include "runtime/summary/event_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/testing/temporary_folder.h"
#include "runtime/summary/record.h"
#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

template <typename Number>
Number TakeNumber(std::string_view& bytes) {
  Number number{};
  std::memcpy(&number, bytes.data(), sizeof(number));
  bytes.remove_prefix(sizeof(number));
  return number;
}

// The data of a file's records; every checksum is compared.
std::vector<std::string> RecordsIn(std::string_view bytes) {
  std::vector<std::string> records;
  while (!bytes.empty()) {
    const std::string_view length_bytes = bytes.substr(0, 8);
    const auto length = TakeNumber<uint64_t>(bytes);
    EXPECT_EQ(TakeNumber<uint32_t>(bytes), MaskedCrc32c(length_bytes));
    if (bytes.size() < length + 4) {
      ADD_FAILURE() << "a record is cut short";
      break;
    }
    records.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
    EXPECT_EQ(TakeNumber<uint32_t>(bytes), MaskedCrc32c(records.back()));
  }
  return records;
}

std::string ContentOf(const std::filesystem::path& path) {
  return ReadFileIfExists(path, 1 << 20).value_or("");
}

// Of tensorboard 2.15's EventFileWriter: wall time 1.5, "brain.Event:2".
TEST(Record, IsWhatTensorBoardsOwnWriterWrites) {
  const std::string event = VersionEvent(1.5);
  EXPECT_EQ(event, std::string("\x09\0\0\0\0\0\0\xf8\x3f\x1a\x0d"
                               "brain.Event:2",
                               24));
  EXPECT_EQ(Record("").substr(0, 12), std::string("\0\0\0\0\0\0\0\0\x29\x03\x98\x07", 12));
}

TEST(Event, HasTheFieldsOfTheProtobuf) {
  EXPECT_EQ(ScalarsEvent(1.5, 300, {{"loss", 0.5F}}),
            std::string("\x09\0\0\0\0\0\0\xf8\x3f"  // wall_time
                        "\x10\xac\x02"              // step
                        "\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f",
                        27));
}

TEST(EventFile, HoldsAVersionAndThenTheEvents) {
  const TemporaryFolder folder;
  EventFile file(folder.path() / "new/logs");
  file.Add(7, {{"loss", 0.5F}, {"accuracy/test", 1}});
  file.Add(8, {});
  EXPECT_EQ(file.path().filename().string().rfind("events.out.tfevents.", 0), 0U);
  const std::vector<std::string> records = RecordsIn(ContentOf(file.path()));
  ASSERT_EQ(records.size(), 3U);
  EXPECT_NE(records[0].find("brain.Event:2"), std::string::npos);
  EXPECT_NE(records[1].find("accuracy/test"), std::string::npos);
}

TEST(EventFile, NamesTheFolderThatItCannotMake) {
  const TemporaryFolder folder;
  const auto file = folder.Write("file", "");
  testing::ExpectError([&] { EventFile events(file / "below"); }, Phase::kFiles, "file/below");
}

}  // namespace
}  // namespace tfdist::runtime
