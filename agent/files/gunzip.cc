#include "agent/files/gunzip.h"

#include <zlib.h>

#include <vector>

#include "base/error.h"

namespace tfdist::agent {
namespace {

constexpr size_t kOutputBytes = 64 * 1024;
constexpr int kGzipOnly = 16 + MAX_WBITS;  // zlib.h, inflateInit2

}  // namespace

struct Gunzip::State {
  z_stream stream{};
  std::vector<unsigned char> output = std::vector<unsigned char>(kOutputBytes);
};

Gunzip::Gunzip() : state_(std::make_unique<State>()) {
  if (inflateInit2(&state_->stream, kGzipOnly) != Z_OK) {
    throw Error(Phase::kFiles, "zlib could not start");
  }
}

Gunzip::~Gunzip() { inflateEnd(&state_->stream); }

void Gunzip::Feed(std::string_view bytes, const std::function<void(std::string_view)>& take) {
  z_stream& stream = state_->stream;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  do {
    if (finished_) {
      if (stream.avail_in == 0) return;
      throw Error(Phase::kFiles, "data after the end of the gzip stream");
    }
    stream.next_out = state_->output.data();
    stream.avail_out = kOutputBytes;
    const int rc = inflate(&stream, Z_NO_FLUSH);
    if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR) {
      throw Error(Phase::kFiles, "a file arrived damaged: it is not gzip");
    }
    finished_ = rc == Z_STREAM_END;
    take({reinterpret_cast<char*>(state_->output.data()), kOutputBytes - stream.avail_out});
  } while (stream.avail_in > 0 || stream.avail_out == 0);
}

}  // namespace tfdist::agent
