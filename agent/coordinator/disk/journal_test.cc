#include "agent/coordinator/disk/journal.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/testing/temporary_folder.h"

// Of folders, by this program.
static int folder_syncs = 0;
static int refused_folder_syncs = 0;

extern "C" int fsync(int fd) {
  struct stat info {};
  if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    ++folder_syncs;
    if (refused_folder_syncs > 0) {
      --refused_folder_syncs;
      errno = EIO;
      return -1;
    }
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace tfdist::agent {
namespace {

using protocol::Event;
using protocol::Json;

Event MakeEvent(uint64_t number, Json fields = Json::object()) {
  return {number, 1'700'000'000'000'000'000 + static_cast<int64_t>(number),
          protocol::event::Other{"news", std::move(fields)}};
}

class JournalTest : public testing::Test {
 protected:
  void SetUp() override { path_ = folder_ / "events.jsonl"; }

  void Write(const std::string& text) const { ReplaceFile(path_, text, 0600); }
  [[nodiscard]] std::string Text() const { return ReadFileIfExists(path_, 4 << 20).value(); }

  const TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
  std::filesystem::path path_;
};

TEST_F(JournalTest, GivesBackWhatWasAppended) {
  Journal journal(path_, ReadJournal(path_));
  const std::string raw("\xff\0\n\"", 4);
  journal.Append(EncodeRecord(MakeEvent(1, {{"last_lines", protocol::Bytes{raw}}})) + "\n", true);
  journal.Append(EncodeRecord(MakeEvent(2, {{"why", "caf\xc3\xa9"}})) + "\n", false);
  const JournalContent content = ReadJournal(path_);
  ASSERT_EQ(content.events.size(), 2U);
  EXPECT_EQ(FieldsOf(content.events[0]).at("last_lines").get<protocol::Bytes>().value, raw);
  EXPECT_EQ(content.events[0].time_ns, MakeEvent(1).time_ns);
  EXPECT_EQ(FieldsOf(content.events[1]).at("why"), "caf\xc3\xa9");
  EXPECT_EQ(content.damaged_bytes, 0U);
}

// Of a task that has written nothing, say.
TEST_F(JournalTest, GivesBackNoBytesAtAll) {
  Journal journal(path_, ReadJournal(path_));
  journal.Append(EncodeRecord(MakeEvent(1, {{"last_lines", protocol::Bytes{}}})) + "\n", true);
  const JournalContent content = ReadJournal(path_);
  ASSERT_EQ(content.events.size(), 1U);
  EXPECT_EQ(FieldsOf(content.events[0]).at("last_lines").get<protocol::Bytes>().value, "");
}

TEST_F(JournalTest, ARecordWithACharacterThatIsNoByteIsNone) {
  Json fields = {{"task", "worker:0"}, {"attempt", 1},     {"run", 1},
                 {"state", "exited"},  {"last_lines", ""}, {"exit", protocol::TaskExit()}};
  for (const char* lines : {"\xc3\xbf", "\xc4\x80"}) {
    fields["last_lines"] = lines;
    const auto event = DecodeRecord(EncodeRecord({1, 0, protocol::event::Other{"task", fields}}));
    EXPECT_EQ(event.has_value(), std::string_view(lines) == "\xc3\xbf");
  }
}

TEST_F(JournalTest, WritesOneJsonObjectALine) {
  const std::string line = EncodeRecord(MakeEvent(1, {{"why", "bad \xff text"}}));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Json json = Json::parse(line);
  EXPECT_EQ(json.at("v"), 1);
  EXPECT_EQ(json.at("crc").get<std::string>().size(), 8U);
}

TEST_F(JournalTest, RefusesEveryAlteredLine) {
  const std::string line = EncodeRecord(MakeEvent(7, {{"news", "worker:0"}}));
  ASSERT_TRUE(DecodeRecord(line));
  for (size_t i = 0; i < line.size(); ++i) {
    std::string altered = line;
    altered[i] = static_cast<char>(altered[i] ^ 1);
    EXPECT_FALSE(DecodeRecord(altered)) << altered;
    EXPECT_FALSE(DecodeRecord(line.substr(0, i)));
  }
}

TEST_F(JournalTest, CutsATornLastRecordAndGoesOn) {
  const std::string first = EncodeRecord(MakeEvent(1)) + "\n";
  const std::string second = EncodeRecord(MakeEvent(2)) + "\n";
  for (size_t kept = 0; kept < second.size(); kept += 13) {
    Write(first + second.substr(0, kept));
    const JournalContent content = ReadJournal(path_);
    ASSERT_EQ(content.events.size(), 1U);
    Journal journal(path_, content);
    journal.Append(second, true);
    EXPECT_EQ(Text(), first + second);
  }
  EXPECT_FALSE(std::filesystem::exists(path_.string() + ".damaged"));
}

TEST_F(JournalTest, StopsAtADamagedRecordAndKeepsACopyOfAll) {
  const std::string first = EncodeRecord(MakeEvent(1)) + "\n";
  std::string second = EncodeRecord(MakeEvent(2)) + "\n";
  second[10] ^= 1;
  const std::string all = first + second + EncodeRecord(MakeEvent(3)) + "\n";
  Write(all);
  const JournalContent content = ReadJournal(path_);
  EXPECT_EQ(content.events.size(), 1U);
  const Journal journal(path_, content);
  EXPECT_EQ(Text(), first);
  EXPECT_EQ(ReadFileIfExists(path_.string() + ".damaged", 1 << 20), all);
}

TEST_F(JournalTest, RefusesAnEventThatCannotHaveHappened) {
  const Event impossible{2, 0, protocol::event::Run{"of no plan", 2}};
  Write(EncodeRecord(MakeEvent(1)) + "\n" + EncodeRecord(impossible) + "\n");
  EXPECT_EQ(ReadJournal(path_).events.size(), 1U);
}

TEST_F(JournalTest, RefusesANumberOutOfTurn) {
  Write(EncodeRecord(MakeEvent(1)) + "\n" + EncodeRecord(MakeEvent(3)) + "\n");
  EXPECT_EQ(ReadJournal(path_).events.size(), 1U);
}

// Else all that is written from then on would be gone after a power cut.
TEST_F(JournalTest, AFolderThatCouldNotBeSyncedIsSyncedWithTheNextDecision) {
  const std::string line = EncodeRecord(MakeEvent(1)) + "\n";
  Write(line);
  Journal journal(path_, ReadJournal(path_));
  refused_folder_syncs = 2;
  journal.Replace(0, line.size(), line);
  const std::string next = EncodeRecord(MakeEvent(2)) + "\n";
  EXPECT_THROW(journal.Append(next, true), Error);
  EXPECT_EQ(Text(), line);
  folder_syncs = 0;
  journal.Append(next, true);
  EXPECT_EQ(folder_syncs, 1);
  EXPECT_EQ(Text(), line + next);
  journal.Append(EncodeRecord(MakeEvent(3)) + "\n", true);
  EXPECT_EQ(folder_syncs, 1);
}

// Whoever wrote it before may have ended between a failed sync and the next decision.
TEST_F(JournalTest, ItsFolderIsSyncedWithTheFirstDecisionOfWhoeverTakesOver) {
  Write(EncodeRecord(MakeEvent(1)) + "\n");
  Journal journal(path_, ReadJournal(path_));
  folder_syncs = 0;
  journal.Append(EncodeRecord(MakeEvent(2)) + "\n", true);
  EXPECT_EQ(folder_syncs, 1);
  journal.Append(EncodeRecord(MakeEvent(3)) + "\n", true);
  EXPECT_EQ(folder_syncs, 1);
}

TEST_F(JournalTest, ItStaysAsLongAsItIsWhereTheDiskHasNoRoomForBoth) {
  if (mount("tfdist-test", folder_.c_str(), "tmpfs", 0, "size=4m") != 0) {
    GTEST_SKIP() << "cannot mount a small disk here (not root)";
  }
  constexpr size_t kBytes = 1 << 20;
  const std::string first = EncodeRecord(MakeEvent(1, {{"why", std::string(kBytes, 'a')}})) + "\n";
  const std::string second = EncodeRecord(MakeEvent(2, {{"why", std::string(kBytes, 'b')}})) + "\n";
  Write(first + second);
  Journal journal(path_, ReadJournal(path_));
  std::string why;
  try {
    journal.Replace(first.size(), first.size() + second.size(), first);
  } catch (const Error& error) {
    why = error.cause();
  }
  EXPECT_NE(why.find("KiB are free"), std::string::npos) << why;
  EXPECT_EQ(Text(), first + second);
  umount2(folder_.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace tfdist::agent
