#include "agent/files/file_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/testing/gzip.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

using protocol::FileDescription;
using protocol::FilePiece;

class FileStoreTest : public testing::Test {
 protected:
  void SetUp() override { store_ = std::make_unique<FileStore>(folder_ / "files"); }

  static FileDescription Describe(const std::string& content, bool executable = false) {
    return {Sha256Hex(content), content.size(), executable, "link"};
  }
  // Sends it in pieces of `piece_bytes`; whether the last one was accepted.
  bool Send(const FileDescription& file, const std::string& gzip, size_t piece_bytes = 1000) {
    bool done = false;
    for (size_t start = 0; start < gzip.size(); start += piece_bytes) {
      done = store_->Accept({.sha256 = file.sha256,
                             .offset = start,
                             .data = {gzip.substr(start, piece_bytes)},
                             .last = start + piece_bytes >= gzip.size()});
    }
    return done;
  }
  [[nodiscard]] size_t FileCount() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(folder_ / "files"), {}));
  }

  const TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
  std::unique_ptr<FileStore> store_;
};

TEST_F(FileStoreTest, ForgetsWhatNobodyHasAskedForInTwoWeeks) {
  const auto used = Describe("used");
  const auto unused = Describe("unused");
  for (const auto& [file, content] : {std::pair(used, "used"), std::pair(unused, "unused")}) {
    store_->Expect(file);
    ASSERT_TRUE(Send(file, Gzip(content)));
    const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(15 * 24);
    std::filesystem::last_write_time(store_->PathOf(file.sha256), old);
  }
  EXPECT_TRUE(store_->Has(used));
  store_->ForgetUnused();
  EXPECT_TRUE(store_->Has(used));
  EXPECT_FALSE(store_->Has(unused));
}

TEST_F(FileStoreTest, ForgetsNothingThatItHasNotStored) {
  const auto cut_off = folder_ / "files" / (Sha256Hex("cut off") + ".a1B2c3");
  const auto foreign = folder_ / "files/x";
  MakePrivateFolder(folder_ / "files");
  for (const auto& path : {cut_off, foreign}) {
    ReplaceFile(path, "content", 0600);
    const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(15 * 24);
    std::filesystem::last_write_time(path, old);
  }
  store_->ForgetUnused();
  EXPECT_FALSE(std::filesystem::exists(cut_off));
  EXPECT_TRUE(std::filesystem::exists(foreign));
}

TEST_F(FileStoreTest, TakesAFileInPiecesAndPlacesIt) {
  std::string content;
  for (int i = 0; i < 50'000; ++i) content += std::to_string(i * 7919);
  const auto file = Describe(content, true);
  EXPECT_FALSE(store_->Has(file));
  store_->Expect(file);
  EXPECT_TRUE(Send(file, Gzip(content)));
  EXPECT_TRUE(store_->Has(file));
  store_->Place(file, folder_ / "runtime");
  EXPECT_EQ(ReadFileIfExists(folder_ / "runtime", content.size()), content);
  struct stat info {};
  stat((folder_ / "runtime").c_str(), &info);
  EXPECT_EQ(info.st_mode & 0777, 0500U);
}

TEST_F(FileStoreTest, RefusesWhatWasNotAnnounced) {
  EXPECT_THROW((void)Send(Describe("x"), Gzip("x")), Error);
}

TEST_F(FileStoreTest, RefusesADamagedFileAndKeepsNothingOfIt) {
  const auto file = Describe("what was announced");
  for (const std::string& sent :
       {Gzip("what has arrived.."), Gzip("what was announced and more"), Gzip("what"),
        std::string("no gzip at all"), Gzip("what was announced") + "tail",
        Gzip("what was announced").substr(0, 20)}) {
    store_->Expect(file);
    EXPECT_THROW((void)Send(file, sent), Error);
    EXPECT_EQ(FileCount(), 0U);
  }
  store_->Expect(file);
  EXPECT_TRUE(Send(file, Gzip("what was announced")));
}

TEST_F(FileStoreTest, UnpacksNoMoreThanWasAnnounced) {
  const auto file = Describe("small");
  store_->Expect(file);
  EXPECT_THROW((void)Send(file, Gzip(std::string(100 << 20, 'x'))), Error);
}

TEST_F(FileStoreTest, SaysOnceThatAFileFailed) {
  const auto file = Describe("content");
  store_->Expect(file);
  const FilePiece bad{.sha256 = file.sha256, .offset = 0, .data = {"no gzip"}, .last = false};
  EXPECT_THROW((void)store_->Accept(bad), Error);
  EXPECT_FALSE(store_->Accept(bad));
}

TEST_F(FileStoreTest, NoticesThatACachedFileWasAltered) {
  const auto file = Describe("content");
  store_->Expect(file);
  ASSERT_TRUE(Send(file, Gzip("content")));
  ReplaceFile(store_->PathOf(file.sha256), "CONTENT", 0400);
  EXPECT_FALSE(store_->Has(file));
}

TEST_F(FileStoreTest, UsesOnlyHashesAsNames) {
  EXPECT_THROW((void)store_->PathOf("../../etc/passwd"), Error);
  EXPECT_THROW((void)store_->PathOf(std::string(64, 'A')), Error);
}

}  // namespace
}  // namespace tfdist::agent
