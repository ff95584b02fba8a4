#include "runtime/data/idx.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

constexpr uint32_t kImagesMagic = 0x803;
constexpr uint32_t kLabelsMagic = 0x801;
constexpr uint64_t kMaxBytes = uint64_t{4} << 30;
// Read in pieces, so that a header that promises too much costs no memory.
constexpr size_t kPieceBytes = 1 << 20;

// One open IDX file. zlib reads plain files as they are.
class IdxFile {
 public:
  explicit IdxFile(const std::filesystem::path& path)
      : path_(path), file_(gzopen(path.c_str(), "rbe")) {  // e: close-on-exec
    if (file_ == nullptr) throw Bad(WithErrno("cannot open", errno));
  }
  IdxFile(const IdxFile&) = delete;
  IdxFile& operator=(const IdxFile&) = delete;
  ~IdxFile() { gzclose(file_); }

  [[nodiscard]] Error Bad(const std::string& why) const {
    return Error(Phase::kFiles, path_.string() + ": " + why);
  }

  uint32_t ReadNumber() {
    std::array<uint8_t, 4> bytes{};
    if (Read(bytes.data(), bytes.size()) != bytes.size()) throw Bad("shorter than an IDX header");
    return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
  }

  void ExpectMagic(uint32_t expected) {
    const uint32_t found = ReadNumber();
    if (found != expected) {
      throw Bad(fmt::format("magic is {:#010x}, not {:#010x}", found, expected));
    }
  }

  // The rest of the file, which must be `size_bytes` long.
  std::vector<uint8_t> ReadRest(uint64_t size_bytes) {
    if (size_bytes > kMaxBytes) throw Bad("its header promises more than 4 GiB");
    std::vector<uint8_t> bytes;
    while (bytes.size() < size_bytes) {
      const size_t before = bytes.size();
      const size_t piece = std::min<uint64_t>(kPieceBytes, size_bytes - before);
      bytes.resize(before + piece);
      if (Read(bytes.data() + before, piece) != piece) throw Bad("shorter than its header says");
    }
    uint8_t beyond = 0;
    if (Read(&beyond, 1) != 0) throw Bad("longer than its header says");
    return bytes;
  }

 private:
  // Bytes read; fewer than `count` only at the end of the file.
  size_t Read(uint8_t* to, size_t count) {
    const int got = gzread(file_, to, static_cast<unsigned>(count));
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    // Z_BUF_ERROR: the gzip stream ends early, which zlib reports beside the bytes it could read.
    if (got < 0 || code == Z_BUF_ERROR) {
      throw Bad(code == Z_ERRNO ? WithErrno("cannot read", errno)
                                : fmt::format("damaged or cut short ({})", text));
    }
    return static_cast<size_t>(got);
  }

  std::filesystem::path path_;
  gzFile file_;
};

}  // namespace

IdxImages ReadIdxImages(const std::filesystem::path& path) {
  IdxFile file(path);
  file.ExpectMagic(kImagesMagic);
  IdxImages images;
  images.count = file.ReadNumber();
  images.rows = file.ReadNumber();
  images.columns = file.ReadNumber();
  // 32-bit numbers: rows * columns cannot overflow 64 bits, the product of all three can.
  if (images.pixels() > kMaxBytes) throw file.Bad("an image of more than 4 GiB");
  if (images.pixels() == 0 || images.count == 0) throw file.Bad("there is no image in it");
  if (images.count > kMaxBytes / images.pixels())
    throw file.Bad("its header promises more than 4 GiB");
  images.bytes = file.ReadRest(images.count * images.pixels());
  return images;
}

std::vector<uint8_t> ReadIdxLabels(const std::filesystem::path& path) {
  IdxFile file(path);
  file.ExpectMagic(kLabelsMagic);
  const uint32_t count = file.ReadNumber();
  return file.ReadRest(count);
}

}  // namespace tfdist::runtime
