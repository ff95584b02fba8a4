#include "cli/deploy/packed_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <random>

#include "base/file.h"
#include "base/hash.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::cli {
namespace {

class PackedFileTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  static std::string Whole(const PackedFile& packed) {
    std::string all;
    while (true) {
      const std::string piece = packed.Read(all.size(), 1000);
      if (piece.empty()) return all;
      all += piece;
    }
  }
  static std::string Gunzip(const std::string& bytes, size_t size) {
    std::string plain(size + 1, '\0');
    z_stream stream{};
    inflateInit2(&stream, MAX_WBITS + 16);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    stream.next_out = reinterpret_cast<Bytef*>(plain.data());
    stream.avail_out = static_cast<uInt>(plain.size());
    EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
    plain.resize(stream.total_out);
    inflateEnd(&stream);
    return plain;
  }
  const TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

TEST_F(PackedFileTest, UnpacksToTheContentItsHashNames) {
  std::mt19937 random(5);
  std::string content(700'000, '\0');
  for (char& byte : content) byte = static_cast<char>(random());
  Write("blob", content);
  const UniqueFd fd = OpenFile(folder_ / "blob", O_RDONLY);
  for (const int level : {0, 6}) {
    const PackedFile packed({fd.get()}, level, true, "runtime");
    EXPECT_EQ(packed.description().sha256, Sha256Hex(content));
    EXPECT_EQ(packed.description().size_bytes, content.size());
    EXPECT_EQ(Whole(packed).size(), packed.gzip_size_bytes());
    EXPECT_EQ(Gunzip(Whole(packed), content.size()), content);
  }
}

}  // namespace
}  // namespace tfdist::cli
