// The messages between a trainer and a parameter server. Layout, rules and an example:
// runtime/MESSAGES.md. Whatever does not hold to that is refused here, before anything is allocated
// by a size that a peer named.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <zmq.hpp>

#include "runtime/common/origin.h"
#include "runtime/common/shard_facts.h"
#include "runtime/common/tensor.h"
#include "runtime/table.h"
#include "runtime/transport/refusal.h"
#include "runtime/transport/wire_float.h"

namespace tfdist::runtime {

inline constexpr uint16_t kProtocolVersion = 11;
inline constexpr size_t kMaxHeaderBytes = size_t{1024} * 1024;
// Messages that a trainer may have under way to one server.
inline constexpr size_t kMaxMessagesUnderWay = 64;
// Answers that a server keeps for a trainer that does not read: twice that, because libzmq learns
// in batches of half a queue how much of it was sent (pipe.cpp, compute_lwm, v4.3.4), and notices.
inline constexpr size_t kMaxAnswersQueued = 2 * kMaxMessagesUnderWay + 32;
// Requests that a trainer may have begun and not ended with one server.
inline constexpr uint64_t kMaxRequestsUnderWay = 1024;
// Parts of one request to one server.
inline constexpr uint32_t kMaxRequestParts = 1U << 16;

enum class Operation : uint8_t {
  kHello = 1,     // first on every connection: the sender's task
  kCreate = 2,    // chief: these variables, unless they are there already
  kOpen = 3,      // are these the variables? Answered once they have values
  kExchange = 4,  // apply these gradients, then give these values
  kAssign = 5,    // chief: the first values of a created variable
  kGoodbye = 6,   // the sender asks for nothing more; has no answer
  kRows = 7,      // as kExchange, for rows of tables
  kLocal = 8,     // between the two transports: is shared memory possible? See shm_connection.h
  kSave = 9,      // chief: write what you hold into a checkpoint
  kRestore = 10,  // chief: take over what a checkpoint has
  kEnd = 11,      // chief: training is over, tell the others
};

// What kRestore asks for. All servers load before the first uses what it has loaded.
enum class RestorePhase : uint8_t { kLoad = 1, kUse = 2 };

// kSave, kRestore.
struct CheckpointPart {
  uint64_t number = 0;  // of the checkpoint
  uint64_t id = 0;     // random, one for each time that a checkpoint is made; the answer has it too
  uint32_t shard = 0;  // the server's
  std::vector<Origin> origins = {};  // of the server's variables
  // kSave
  uint32_t of = 0;                  // shards
  std::vector<uint64_t> kept = {};  // checkpoints before this one that are to stay
  // kRestore
  RestorePhase phase = RestorePhase::kLoad;
  bool values_only = false;  // from the folder of --from-checkpoint
  uint64_t step = 0;         // the global one
  std::vector<ShardFacts> shards = {};

  bool operator==(const CheckpointPart&) const = default;
};

// A run of floats in a block.
struct Range {
  uint32_t offset = 0;
  uint32_t count = 0;

  bool operator==(const Range&) const = default;
};
size_t FloatsOf(const std::vector<Range>& ranges);

// Some rows of one table. The payload has, table after table: the rows that are pushed, those that
// are pulled, as uint32 counted over the table's part on this server, then the gradients.
struct RowCounts {
  uint32_t table = 0;  // position in the list of kCreate and kOpen
  uint32_t push = 0;
  uint32_t pull = 0;
  // The last message of a push about this table. The push may name no row of it here.
  bool push_ends = false;

  bool operator==(const RowCounts&) const = default;
};

// kExchange, kAssign: one part of a request, about one block. kRows: one about some rows.
struct PartHeader {
  uint64_t creation = 0;  // which creation of the variables is meant, as kCreate and kOpen said
  uint64_t sequence = 0;  // of the request: from 1, per client and server
  uint64_t oldest = 0;    // no request before this one will be sent again
  uint32_t number = 0;    // of the part in its request
  uint32_t of = 1;        // parts in the request
  uint32_t block = 0;
  bool is_push = false;     // counted as a step, and applied once
  std::vector<Range> push;  // the payload's values, one range after the other
  std::vector<Range> pull;  // the values that are wanted, in this order
  uint64_t local_step = 0;  // that the gradients belong to, as this server's reply said before
  WireFloat values = WireFloat::kFloat32;  // of the payload and of the answer's; kExchange alone
  // kRows alone, which has none of block, push and pull.
  std::vector<RowCounts> rows = {};
  // kExchange: where the answer's values belong in memory that the sender shares with the server
  // (Connection::PlaceOf). Else they come in a payload.
  std::optional<uint64_t> place = {};

  bool operator==(const PartHeader&) const = default;
};

struct Request {
  Operation operation = Operation::kHello;
  uint32_t attempt = 1;                // of the job; another attempt's servers do not answer
  uint64_t client = 0;                 // random, one per start of a client
  std::string task;                    // kHello: the sender, "worker:1"
  std::string optimizer;               // kCreate: as OptimizerSpec writes it
  std::vector<TensorSpec> variables;   // kCreate, kOpen
  PartHeader part;                     // kExchange, kAssign, kRows
  std::string update_mode{};           // kCreate: as UpdateMode writes it
  std::vector<TablePart> tables = {};  // kCreate, kOpen
  std::string host{};                  // kLocal: the sender's, as shm::ThisHost says it
  bool restores = false;  // kCreate: values come from a checkpoint, by kRestore, not by kAssign
  CheckpointPart checkpoint = {};  // kSave, kRestore

  bool operator==(const Request&) const = default;
};

enum class Status : uint8_t {
  kDone = 0,
  kRefused = 1,
  kValuesWanted = 2,  // kCreate: assign first values to all blocks
  kWaiting = 3,       // no answer yet: `error` names the trainers waited for. Of no request
};

struct Reply {
  Operation operation = Operation::kHello;  // of the request
  Status status = Status::kDone;
  uint32_t number = 0;        // of the part
  uint64_t sequence = 0;      // of the request
  uint64_t step = 0;          // updates that this server has applied
  uint64_t creation = 0;      // kCreate, kOpen
  std::string error;          // kRefused: why; kWaiting: the trainers waited for
  uint64_t local_step = 0;    // that the trainer's next gradients belong to
  std::string update_mode{};  // kCreate, kOpen
  // kCreate, kOpen: each row of a push must be seen once, by the optimizer or in a mean of pushes.
  bool sums_rows = false;
  std::string offer{};  // kLocal: bytes of an shm::Offer; empty: not here
  // kHello: where the server's other threads listen, in order; empty when another thread answers.
  std::vector<uint16_t> ports = {};
  // kCreate, kOpen: a push changes all rows of a table, and must come to all of its parts.
  bool moves_all_rows = false;
  // kCreate: there were no variables before, or they have no values yet.
  bool is_new = false;
  RefusalKind refusal = RefusalKind::kInvalid;  // kRefused
  std::string remedy{};                         // kRefused: what helps; may be empty
  ShardFacts saved = {};                        // kSave, done: the file
  uint64_t saved_step = 0;                      // the same: steps when its values were taken
  // How much the server has to do. Messages that it has answered without a pause, this one included;
  // answers that it held back; how long it has been idle since it started.
  uint32_t queue = 0;
  uint32_t held = 0;
  uint64_t idle_microseconds = 0;
  bool is_over = false;  // the chief has ended the training

  bool operator==(const Reply&) const = default;
};

zmq::message_t Encode(const Request& request);
zmq::message_t Encode(const Reply& reply);

// Whether that is what the header is about, as far as its first bytes say.
bool IsAbout(const zmq::message_t& header, Operation operation);

// Throw Error(kRun) on anything but a well-formed header of our version. `into` is written over; a
// caller that keeps it saves its allocations.
void Decode(std::string_view header, Request& into);
void Decode(std::string_view header, Reply& into);

}  // namespace tfdist::runtime
