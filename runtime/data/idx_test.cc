#include "runtime/data/idx.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "base/testing/temporary_folder.h"
#include "base/testing/test_paths.h"
#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

using testing::ExpectError;

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string ImagesHeader(uint32_t count, uint32_t rows, uint32_t columns) {
  return BigEndian(0x803) + BigEndian(count) + BigEndian(rows) + BigEndian(columns);
}

std::string Gzip(const std::string& plain) {
  const TemporaryFolder folder;
  const auto path = folder.Write("x", "");
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, plain.data(), static_cast<unsigned>(plain.size()));
  gzclose(file);
  std::ifstream compressed(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(compressed), {}};
}

const std::string kTwoImages = ImagesHeader(2, 1, 3) + "abcdef";
const std::string kThreeLabels = BigEndian(0x801) + BigEndian(3) + std::string("\x00\x07\x09", 3);

TEST(Idx, ReadsImagesPlainAndCompressed) {
  const TemporaryFolder folder;
  for (const std::string& content : {kTwoImages, Gzip(kTwoImages)}) {
    const IdxImages images = ReadIdxImages(folder.Write("images", content));
    EXPECT_EQ(images.count, 2U);
    EXPECT_EQ(images.pixels(), 3U);
    EXPECT_EQ(images.bytes, (std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
  }
}

TEST(Idx, ReadsLabelsPlainAndCompressed) {
  const TemporaryFolder folder;
  for (const std::string& content : {kThreeLabels, Gzip(kThreeLabels)}) {
    EXPECT_EQ(ReadIdxLabels(folder.Write("labels", content)), (std::vector<uint8_t>{0, 7, 9}));
  }
}

TEST(Idx, ReadsTheDigits) {
  const IdxImages images =
      ReadIdxImages(TestSourceDir() / "configs/data/digits/train-images-idx3-ubyte.gz");
  EXPECT_EQ(images.count, 1437U);
  EXPECT_EQ(images.rows, 8U);
  EXPECT_EQ(images.columns, 8U);
}

TEST(Idx, NamesWhatIsWrongWithAFileOfImages) {
  const struct {
    std::string content;
    std::string message;
  } cases[] = {
      {"", "shorter than an IDX header"},
      {kTwoImages.substr(0, 10), "shorter than an IDX header"},
      {kThreeLabels, "magic is 0x00000801, not 0x00000803"},
      {kTwoImages.substr(0, kTwoImages.size() - 1), "shorter than its header says"},
      {kTwoImages + "x", "longer than its header says"},
      {ImagesHeader(0, 1, 1), "no image"},
      {ImagesHeader(1, 0, 1), "no image"},
      {ImagesHeader(0xffffffff, 0xffffffff, 0xffffffff), "more than 4 GiB"},
      {ImagesHeader(0xffffffff, 2, 2), "more than 4 GiB"},
      {ImagesHeader(1, 0xffff, 0xffff), "shorter than its header says"},  // and costs no 4 GiB
      {Gzip(kTwoImages).substr(0, 25), "cut short"},
      {Gzip(kTwoImages).substr(0, Gzip(kTwoImages).size() - 4), "cut short"},
  };
  const TemporaryFolder folder;
  for (const auto& bad : cases) {
    const auto path = folder.Write("images", bad.content);
    ExpectError([&] { (void)ReadIdxImages(path); }, Phase::kFiles, bad.message);
    ExpectError([&] { (void)ReadIdxImages(path); }, Phase::kFiles, path.string());
  }
}

TEST(Idx, NoticesDamageInACompressedFile) {
  std::string damaged = Gzip(kTwoImages);
  damaged[damaged.size() - 6] = static_cast<char>(damaged[damaged.size() - 6] ^ 1);  // its CRC
  const TemporaryFolder folder;
  ExpectError([&] { (void)ReadIdxImages(folder.Write("images", damaged)); }, Phase::kFiles,
              "damaged");
}

TEST(Idx, SaysThatAFileIsMissing) {
  ExpectError([] { (void)ReadIdxLabels("/nowhere/labels"); }, Phase::kFiles,
              "/nowhere/labels: cannot open: No such file");
}

}  // namespace
}  // namespace tfdist::runtime
