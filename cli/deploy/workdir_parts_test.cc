#include "cli/deploy/workdir_parts.h"

#include <gtest/gtest.h>
#include <sodium.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

class WorkdirPartsTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("XDG_CACHE_HOME", (temporary_.path() / "cache").c_str(), 1);  // NOLINT: one thread
    fs::create_directory(folder_);
  }
  // As one that was written an hour ago: newer files are hashed again.
  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  [[nodiscard]] WorkdirListing Listing() const {
    Plan plan;
    plan.workdir = folder_;
    return ListWorkdir(plan);
  }
  [[nodiscard]] WorkdirParts Parts(FileHashes& hashes) const {
    return {folder_, Listing(), hashes};
  }
  [[nodiscard]] std::string Hash() const {
    FileHashes hashes(folder_);
    return Parts(hashes).Hash();
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path() / "work";
  const std::string large_ = std::string(kLargeFileBytes, 'x');
};

TEST_F(WorkdirPartsTest, TheSameContentHasTheSameHash) {
  Write("train.py", "print('hi')");
  Write("data", large_);
  const std::string hash = Hash();
  Write("data", large_);
  EXPECT_EQ(Hash(), hash);
  fs::permissions(folder_ / "data", fs::perms::owner_all);
  const std::string executable = Hash();
  EXPECT_NE(executable, hash);
  fs::rename(folder_ / "data", folder_ / "other");
  EXPECT_NE(Hash(), executable);
}

TEST_F(WorkdirPartsTest, ATouchedFileChangesTheTimesAndNothingElse) {
  Write("train.py", "print('hi')");
  Write("data", large_);
  const auto look = [&] {
    FileHashes hashes(folder_);
    const WorkdirParts parts = Parts(hashes);
    return std::pair(parts.Hash(), parts.times().description().sha256);
  };
  const auto before = look();
  EXPECT_EQ(look(), before);
  fs::last_write_time(folder_ / "train.py", fs::file_time_type() + std::chrono::hours(1));
  const auto after = look();
  EXPECT_EQ(after.first, before.first);
  EXPECT_NE(after.second, before.second);
}

TEST_F(WorkdirPartsTest, AnotherModeIsAnotherPlanForSmallFilesAndLargeOnes) {
  Write("small", "x");
  Write("data", large_);
  const auto hash = [&] {
    FileHashes hashes(folder_);
    return Parts(hashes).Hash();
  };
  for (const char* name : {"small", "data"}) {
    fs::permissions(folder_ / name, fs::perms(0644));
    const std::string before = hash();
    fs::permissions(folder_ / name, fs::perms(0600));
    EXPECT_NE(hash(), before) << name;
  }
}

TEST_F(WorkdirPartsTest, ALargeFileIsAPartOfItsOwn) {
  Write("small", "x");
  const std::string archive = [&] {
    FileHashes hashes(folder_);
    return Parts(hashes).archives().at(0).description().sha256;
  }();
  Write("data", large_);
  FileHashes hashes(folder_);
  WorkdirParts parts = Parts(hashes);
  EXPECT_EQ(parts.archives().at(0).description().sha256, archive);
  ASSERT_EQ(parts.files().size(), 1U);
  EXPECT_EQ(parts.files()[0].link, "work/data");
  EXPECT_EQ(parts.files()[0].sha256, Sha256Hex(large_));
  const PackedFile* pack = parts.Pack(parts.files()[0].sha256, [] {});
  ASSERT_NE(pack, nullptr);
  EXPECT_EQ(pack->description().size_bytes, large_.size());
  EXPECT_LT(pack->gzip_size_bytes(), large_.size() / 10);
  EXPECT_EQ(pack->Read(0, 1 << 20).size(), pack->gzip_size_bytes());
  EXPECT_EQ(parts.Pack(archive, [] {}), &parts.archives()[0]);
  EXPECT_EQ(parts.Pack(std::string(64, '0'), [] {}), nullptr);
}

TEST_F(WorkdirPartsTest, AChangedSmallFileChangesOneArchiveOfMany) {
  fs::create_directory(folder_ / "some");
  for (int i = 0; i < 200; ++i) {
    Write("some/" + std::to_string(i), std::string(10'000, static_cast<char>('a' + i % 26)));
  }
  const auto archives = [&] {
    FileHashes hashes(folder_);
    std::set<std::string> found;
    for (const auto& file : Parts(hashes).ArchiveDescriptions()) found.insert(file.sha256);
    return found;
  };
  const auto before = archives();
  EXPECT_EQ(before.size(), 8 + 1);
  Write("some/17", "changed");
  std::vector<std::string> fresh;
  std::ranges::set_difference(archives(), before, std::back_inserter(fresh));
  EXPECT_EQ(fresh.size(), 1);
}

TEST_F(WorkdirPartsTest, WhatDoesNotCompressIsStored) {
  std::string random(kLargeFileBytes, '\0');
  randombytes_buf(random.data(), random.size());
  Write("checkpoint", random);
  FileHashes hashes(folder_);
  WorkdirParts parts = Parts(hashes);
  const PackedFile* pack = parts.Pack(parts.files()[0].sha256, [] {});
  // A block of what is stored is up to 64 KiB long; the fastest level ends one after 16 KiB, as nothing shrinks.
  const uint64_t blocks = random.size() / (32 * 1024);
  EXPECT_LT(pack->gzip_size_bytes(), random.size() + 5 * blocks + 50);
}

TEST_F(WorkdirPartsTest, AFileThatChangesMeanwhileIsNamed) {
  Write("data", large_);
  FileHashes hashes(folder_);
  WorkdirParts parts = Parts(hashes);
  Write("data", large_ + "more");
  try {
    parts.Pack(parts.files()[0].sha256, [] {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.cause().find("work/data has changed since"), std::string::npos);
  }
}

TEST_F(WorkdirPartsTest, AFileThatIsGoneOrShorterBeforeItIsPackedIsNamed) {
  const auto check = [&](const std::string& content, const auto& change) {
    Write("data", content);
    const WorkdirListing listing = Listing();
    change(folder_ / "data");
    FileHashes hashes(folder_);
    try {
      const WorkdirParts parts(folder_, listing, hashes);
      FAIL() << content.size();
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), (folder_ / "data").string() + " has changed since it was looked at");
      EXPECT_EQ(error.remedy(), "start again once nothing writes it");
    }
  };
  const auto remove = [](const fs::path& path) { fs::remove(path); };
  check("small", remove);
  check(large_, remove);
  check(large_, [](const fs::path& path) { fs::resize_file(path, 4); });
}

TEST_F(WorkdirPartsTest, DataThatIsGoneBeforeItIsListedIsNamed) {
  DataPlan data;
  data.source = folder_ / "set";
  EXPECT_THROW(ListData(data), Error);
}

TEST_F(WorkdirPartsTest, AFileIsReadAgainOnlyWhenItHasChanged) {
  Write("data", large_);
  WorkdirListing listing = Listing();
  constexpr int64_t kHour = 3600;
  listing.entries[0].info.st_mtim.tv_sec -=
      kHour;  // a file that was written just now is not trusted
  listing.entries[0].info.st_ctim.tv_sec -= kHour;
  const auto read_bytes = [&] {
    FileHashes hashes(folder_);
    EXPECT_EQ(hashes.Of(listing.entries[0]), Sha256Hex(large_));
    hashes.Save();
    return hashes.read_bytes();
  };
  EXPECT_EQ(read_bytes(), large_.size());
  EXPECT_EQ(read_bytes(), 0U);
  ++listing.entries[0].info.st_mtim.tv_nsec;
  EXPECT_EQ(read_bytes(), large_.size());
  for (const auto& file : fs::directory_iterator(temporary_.path() / "cache/tfdist/hashes")) {
    std::ofstream(file.path()) << "damaged";
  }
  EXPECT_EQ(read_bytes(), large_.size());
}

}  // namespace
}  // namespace tfdist::cli
