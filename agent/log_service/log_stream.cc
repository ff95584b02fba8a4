#include "agent/log_service/log_stream.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "agent/log/log_cursor.h"
#include "agent/slot/slot_folder.h"

namespace tfdist::agent {
namespace {

using protocol::Json;
using protocol::LogPiece;
using protocol::ReadLog;

// How soon a follower sees new text.
constexpr std::chrono::milliseconds kGrowthInterval{50};

}  // namespace

class LogStream::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(EventLoop& loop, FileThread& files, uint64_t id, const ReadLog& request, Source source,
       Sink sink)
      : files_(files),
        id_(id),
        follow_(request.follow),
        credit_(request.credit),
        from_(request.begins_somewhere() ? Json() : Json(request.offset)),
        cursor_(std::make_shared<LogCursor>(source.task_folder, request)),
        source_(std::move(source)),
        sink_(std::move(sink)),
        growth_(loop, [this] { Pump(); }) {}

  void Credit(uint64_t bytes) {
    credit_ += bytes;
    Pump();
  }

  void Pump() {
    if (reading_ || ended_ || growth_.running() || credit_ == 0 || !sink_.ready()) return;
    reading_ = true;
    // Asked before the read: what is written afterwards is read the next time.
    const LogEnd end = source_.closed() ? LogEnd::kClosed : LogEnd::kOpen;
    const bool last_chance = !follow_ || source_.over();
    const auto read = [weak = weak_from_this(), cursor = cursor_, limit = credit_, end,
                       folder = source_.slot_folder]() -> std::optional<LogPiece> {
      if (weak.expired()) return std::nullopt;  // nobody reads any more
      auto piece = cursor->Next(limit, end);
      if (piece && piece->data.empty() && !IsSlotFolder(folder)) {
        throw Error(Phase::kLogs, "the job's folder on this host was removed, and its output");
      }
      return piece;
    };
    files_.Post(read,
                [weak = weak_from_this(), last_chance](Outcome<std::optional<LogPiece>>& outcome) {
                  if (const auto self = weak.lock()) self->OnRead(outcome, last_chance);
                });
  }

  [[nodiscard]] bool ended() const { return ended_; }

 private:
  void OnRead(Outcome<std::optional<LogPiece>>& outcome, bool last_chance) {
    reading_ = false;
    try {
      auto& piece = outcome.Get();
      piece ? Take(std::move(*piece), last_chance) : Pump();
    } catch (const Error& e) {
      ended_ = true;
      sink_.send(protocol::ErrorMessage(id_, e));
    }
  }

  void Take(LogPiece piece, bool last_chance) {
    if (!piece.data.empty()) {
      const uint64_t end = piece.offset + piece.data.size();
      credit_ -= std::min<uint64_t>(credit_, piece.data.size());
      Send(protocol::MessageWith(protocol::type::kLog, id_, std::move(piece)));
      from_ = end;
      Pump();
    } else if (last_chance) {
      ended_ = true;
      Send({std::string(protocol::type::kEnd), id_, {{"offset", piece.offset}}});
    } else {
      growth_.Start(kGrowthInterval);
    }
  }

  // `from` lets a relay notice that a piece is missing.
  void Send(protocol::Message message) {
    message.body["from"] = from_;
    sink_.send(std::move(message));
  }

  FileThread& files_;
  uint64_t id_;
  bool follow_;
  uint64_t credit_;
  Json from_;  // where the piece before ended; null before the first of the last lines
  std::shared_ptr<LogCursor> cursor_;  // belongs to the file thread
  Source source_;
  Sink sink_;
  EventLoop::Timer growth_;
  bool reading_ = false;
  bool ended_ = false;
};

LogStream::LogStream(EventLoop& loop, FileThread& files, uint64_t id, const ReadLog& request,
                     Source source, Sink sink)
    : impl_(std::make_shared<Impl>(loop, files, id, request, std::move(source), std::move(sink))) {}

LogStream::~LogStream() = default;

void LogStream::Credit(uint64_t bytes) { impl_->Credit(bytes); }

void LogStream::Pump() { impl_->Pump(); }

bool LogStream::ended() const { return impl_->ended(); }

}  // namespace tfdist::agent
