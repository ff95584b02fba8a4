#include "runtime/transport/messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/common/bytes.h"
#include "runtime/common/cluster.h"

namespace tfdist::runtime {
namespace {

constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxErrorBytes = 4096;
constexpr size_t kMaxModeBytes = 255;
constexpr size_t kMaxOfferBytes = 1024;
constexpr size_t kMaxVariables = 16'384;
constexpr size_t kMaxRank = 8;
constexpr size_t kMaxTables = 16'384;
constexpr size_t kMaxKept = 4096;
constexpr size_t kMaxShards = 65'536;
// Flags of a part.
constexpr uint8_t kIsPush = 1;
constexpr int kValuesShift = 1;  // WireFloat, in two bits
constexpr uint8_t kIsPlaced = 8;
// Of any reply.
constexpr uint8_t kIsOver = 1;
// Of rows of a table.
constexpr uint16_t kPushEnds = 1;
// Of a server's variables, and how it applies rows.
constexpr uint8_t kSumsRows = 1;
constexpr uint8_t kMovesAllRows = 2;
constexpr uint8_t kIsNew = 4;
constexpr uint8_t kCreationFlags = kSumsRows | kMovesAllRows | kIsNew;

void PutVariables(ByteWriter& writer, const std::vector<TensorSpec>& variables) {
  writer.Put(static_cast<uint16_t>(variables.size()));
  for (const TensorSpec& variable : variables) {
    writer.PutText(variable.name);
    writer.Put(static_cast<uint8_t>(variable.shape.size()));
    for (const uint32_t dimension : variable.shape) writer.Put(dimension);
  }
}

TensorSpec GetVariable(ByteReader& reader) {
  TensorSpec variable;
  variable.name = reader.GetText(kMaxNameBytes);
  const auto rank = reader.Get<uint8_t>();
  if (rank > kMaxRank) throw Error(Phase::kRun, "message: a variable has too many dimensions");
  for (int i = 0; i < rank; ++i) variable.shape.push_back(reader.Get<uint32_t>());
  return variable;
}

void GetVariables(ByteReader& reader, std::vector<TensorSpec>& variables) {
  const auto count = reader.Get<uint16_t>();
  if (count > kMaxVariables) throw Error(Phase::kRun, "message: too many variables");
  for (int i = 0; i < count; ++i) variables.push_back(GetVariable(reader));
}

void PutTables(ByteWriter& writer, const std::vector<TablePart>& tables) {
  writer.Put(static_cast<uint16_t>(tables.size()));
  for (const TablePart& table : tables) {
    writer.PutText(table.table);
    for (const uint32_t number : {table.rows, table.width, table.first, table.step}) {
      writer.Put(number);
    }
    writer.Put(static_cast<uint8_t>(table.initial.values));
    writer.Put(table.initial.first);
    writer.Put(table.initial.second);
    writer.Put(table.initial.seed);
  }
}

TablePart GetTable(ByteReader& reader) {
  TablePart table;
  table.table = reader.GetText(kMaxNameBytes);
  for (uint32_t* number : {&table.rows, &table.width, &table.first, &table.step}) {
    *number = reader.Get<uint32_t>();
  }
  table.initial.values = static_cast<RowValues>(reader.Get<uint8_t>());
  if (table.initial.values > RowValues::kTruncatedNormal) {
    throw Error(Phase::kRun, "message: unknown first values of rows");
  }
  table.initial.first = reader.Get<float>();
  table.initial.second = reader.Get<float>();
  table.initial.seed = reader.Get<uint64_t>();
  return table;
}

void GetTables(ByteReader& reader, std::vector<TablePart>& tables) {
  const auto count = reader.Get<uint16_t>();
  if (count > kMaxTables) throw Error(Phase::kRun, "message: too many tables");
  for (int i = 0; i < count; ++i) tables.push_back(GetTable(reader));
}

void PutRanges(ByteWriter& writer, const std::vector<Range>& ranges) {
  writer.Put(static_cast<uint16_t>(ranges.size()));
  for (const Range& range : ranges) {
    writer.Put(range.offset);
    writer.Put(range.count);
  }
}

void GetRanges(ByteReader& reader, std::vector<Range>& ranges) {
  const auto count = reader.Get<uint16_t>();
  for (int i = 0; i < count; ++i) {
    const auto offset = reader.Get<uint32_t>();
    ranges.push_back({offset, reader.Get<uint32_t>()});
  }
}

void PutRowCounts(ByteWriter& writer, const std::vector<RowCounts>& rows) {
  writer.Put(static_cast<uint16_t>(rows.size()));
  for (const RowCounts& counts : rows) {
    writer.Put(static_cast<uint16_t>(counts.table));
    writer.Put(static_cast<uint16_t>(counts.push_ends ? kPushEnds : 0));
    writer.Put(counts.push);
    writer.Put(counts.pull);
  }
}

void GetRowCounts(ByteReader& reader, std::vector<RowCounts>& rows) {
  const auto count = reader.Get<uint16_t>();
  for (int i = 0; i < count; ++i) {
    RowCounts& counts = rows.emplace_back();
    counts.table = reader.Get<uint16_t>();
    const auto flags = reader.Get<uint16_t>();
    if (flags > kPushEnds) throw Error(Phase::kRun, "message: unknown flags");
    counts.push_ends = flags == kPushEnds;
    counts.push = reader.Get<uint32_t>();
    counts.pull = reader.Get<uint32_t>();
  }
}

void PutPart(ByteWriter& writer, Operation operation, const PartHeader& part) {
  writer.Put(part.creation);
  writer.Put(part.sequence);
  writer.Put(part.oldest);
  writer.Put(part.local_step);
  writer.Put(part.number);
  writer.Put(part.of);
  if (operation != Operation::kRows) writer.Put(part.block);
  const int values = static_cast<int>(part.values) << kValuesShift;
  const int placed = part.place ? kIsPlaced : 0;
  writer.Put(static_cast<uint8_t>((part.is_push ? kIsPush : 0) | values | placed));
  if (operation == Operation::kRows) return PutRowCounts(writer, part.rows);
  PutRanges(writer, part.push);
  PutRanges(writer, part.pull);
  if (part.place) writer.Put(*part.place);
}

void GetPart(ByteReader& reader, Operation operation, PartHeader& part) {
  part.creation = reader.Get<uint64_t>();
  part.sequence = reader.Get<uint64_t>();
  part.oldest = reader.Get<uint64_t>();
  part.local_step = reader.Get<uint64_t>();
  part.number = reader.Get<uint32_t>();
  part.of = reader.Get<uint32_t>();
  part.block = operation == Operation::kRows ? 0 : reader.Get<uint32_t>();
  const auto flags = reader.Get<uint8_t>();
  part.is_push = (flags & kIsPush) != 0;
  const bool placed = (flags & kIsPlaced) != 0;
  part.values = static_cast<WireFloat>((flags & ~kIsPlaced) >> kValuesShift);
  const bool exchange = operation == Operation::kExchange;
  const WireFloat most = exchange ? WireFloat::kBfloat16 : WireFloat::kFloat32;
  if (part.values > most || (placed && !exchange)) {
    throw Error(Phase::kRun, "message: unknown flags");
  }
  if (part.of == 0 || part.of > kMaxRequestParts || part.number >= part.of) {
    throw Error(Phase::kRun, "message: no such part of a request");
  }
  if (operation == Operation::kRows) return GetRowCounts(reader, part.rows);
  GetRanges(reader, part.push);
  GetRanges(reader, part.pull);
  if (placed) part.place = reader.Get<uint64_t>();
}

void PutShape(ByteWriter& writer, const std::vector<uint32_t>& shape) {
  writer.Put(static_cast<uint8_t>(shape.size()));
  for (const uint32_t dimension : shape) writer.Put(dimension);
}

std::vector<uint32_t> GetShape(ByteReader& reader) {
  const auto rank = reader.Get<uint8_t>();
  if (rank > kMaxRank) throw Error(Phase::kRun, "message: a variable has too many dimensions");
  std::vector<uint32_t> shape;
  for (int i = 0; i < rank; ++i) shape.push_back(reader.Get<uint32_t>());
  return shape;
}

void PutOrigins(ByteWriter& writer, const std::vector<Origin>& origins) {
  writer.Put(static_cast<uint16_t>(origins.size()));
  for (const Origin& origin : origins) {
    writer.PutText(origin.whole);
    PutShape(writer, origin.shape);
    writer.Put(origin.first);
  }
}

void GetOrigins(ByteReader& reader, std::vector<Origin>& origins) {
  const auto count = reader.Get<uint16_t>();
  if (count > kMaxVariables) throw Error(Phase::kRun, "message: too many variables");
  for (int i = 0; i < count; ++i) {
    Origin& origin = origins.emplace_back();
    origin.whole = reader.GetText(kMaxNameBytes);
    origin.shape = GetShape(reader);
    origin.first = reader.Get<uint64_t>();
  }
}

void PutSaving(ByteWriter& writer, const CheckpointPart& part) {
  writer.Put(part.of);
  writer.Put(static_cast<uint16_t>(part.kept.size()));
  for (const uint64_t number : part.kept) writer.Put(number);
}

void GetSaving(ByteReader& reader, CheckpointPart& part) {
  part.of = reader.Get<uint32_t>();
  if (part.of > kMaxShards || part.shard >= part.of) {
    throw Error(Phase::kRun, "message: no such shard");
  }
  const auto count = reader.Get<uint16_t>();
  if (count > kMaxKept) throw Error(Phase::kRun, "message: too many checkpoints");
  for (int i = 0; i < count; ++i) part.kept.push_back(reader.Get<uint64_t>());
}

void PutRestoring(ByteWriter& writer, const CheckpointPart& part) {
  writer.Put(static_cast<uint8_t>(part.phase));
  writer.Put(static_cast<uint8_t>(part.values_only ? 1 : 0));
  writer.Put(part.step);
  writer.Put(static_cast<uint32_t>(part.shards.size()));
  for (const ShardFacts& shard : part.shards) {
    writer.Put(shard.bytes);
    writer.Put(shard.header_crc);
  }
}

void GetRestoring(ByteReader& reader, CheckpointPart& part) {
  part.phase = static_cast<RestorePhase>(reader.Get<uint8_t>());
  const auto flags = reader.Get<uint8_t>();
  if (part.phase < RestorePhase::kLoad || part.phase > RestorePhase::kUse || flags > 1) {
    throw Error(Phase::kRun, "message: unknown flags");
  }
  part.values_only = flags == 1;
  part.step = reader.Get<uint64_t>();
  const auto count = reader.Get<uint32_t>();
  if (count > kMaxShards) throw Error(Phase::kRun, "message: too many shards");
  for (uint32_t i = 0; i < count; ++i) {
    ShardFacts& shard = part.shards.emplace_back();
    shard.bytes = reader.Get<uint64_t>();
    shard.header_crc = reader.Get<uint32_t>();
  }
}

void PutCheckpoint(ByteWriter& writer, Operation operation, const CheckpointPart& part) {
  writer.Put(part.number);
  writer.Put(part.id);
  writer.Put(part.shard);
  if (operation == Operation::kSave) {
    PutSaving(writer, part);
  } else {
    PutRestoring(writer, part);
  }
  PutOrigins(writer, part.origins);
}

void GetCheckpoint(ByteReader& reader, Operation operation, CheckpointPart& part) {
  part.number = reader.Get<uint64_t>();
  part.id = reader.Get<uint64_t>();
  part.shard = reader.Get<uint32_t>();
  if (operation == Operation::kSave) {
    GetSaving(reader, part);
  } else {
    GetRestoring(reader, part);
  }
  GetOrigins(reader, part.origins);
}

bool GetRestores(ByteReader& reader) {
  const auto flags = reader.Get<uint8_t>();
  if (flags > 1) throw Error(Phase::kRun, "message: unknown flags");
  return flags == 1;
}

// Version, then the operation.
Operation GetStart(ByteReader& reader, std::string_view header) {
  if (header.size() > kMaxHeaderBytes) throw Error(Phase::kRun, "message: the header is too long");
  const auto version = reader.Get<uint16_t>();
  if (version != kProtocolVersion) {
    throw Error(Phase::kRun, fmt::format("message of protocol version {}; this program speaks {}",
                                         version, kProtocolVersion));
  }
  const auto operation = static_cast<Operation>(reader.Get<uint8_t>());
  if (operation < Operation::kHello || operation > Operation::kEnd) {
    throw Error(Phase::kRun, "message: unknown operation");
  }
  return operation;
}

uint8_t CreationFlagsOf(const Reply& reply) {
  return (reply.sums_rows ? kSumsRows : 0) | (reply.moves_all_rows ? kMovesAllRows : 0) |
         (reply.is_new ? kIsNew : 0);
}

void SetCreationFlags(uint8_t flags, Reply& into) {
  if (flags > kCreationFlags) throw Error(Phase::kRun, "message: unknown flags");
  into.sums_rows = (flags & kSumsRows) != 0;
  into.moves_all_rows = (flags & kMovesAllRows) != 0;
  into.is_new = (flags & kIsNew) != 0;
}

void PutLoad(ByteWriter& writer, const Reply& reply) {
  writer.Put(reply.queue);
  writer.Put(reply.held);
  writer.Put(reply.idle_microseconds);
  writer.Put(static_cast<uint8_t>(reply.is_over ? kIsOver : 0));
}

void GetLoad(ByteReader& reader, Reply& into) {
  into.queue = reader.Get<uint32_t>();
  into.held = reader.Get<uint32_t>();
  into.idle_microseconds = reader.Get<uint64_t>();
  const auto flags = reader.Get<uint8_t>();
  if (flags > kIsOver) throw Error(Phase::kRun, "message: unknown flags");
  into.is_over = flags == kIsOver;
}

bool HasText(Status status) { return status == Status::kRefused || status == Status::kWaiting; }

bool HasSaved(const Reply& reply) {
  return reply.operation == Operation::kSave && reply.status == Status::kDone;
}

void PutSaved(ByteWriter& writer, const Reply& reply) {
  writer.Put(reply.saved.bytes);
  writer.Put(reply.saved.header_crc);
  writer.Put(reply.saved_step);
}

void GetSaved(ByteReader& reader, Reply& into) {
  into.saved = {};
  into.saved_step = 0;
  if (!HasSaved(into)) return;
  into.saved.bytes = reader.Get<uint64_t>();
  into.saved.header_crc = reader.Get<uint32_t>();
  into.saved_step = reader.Get<uint64_t>();
}

void PutCut(ByteWriter& writer, std::string_view text) {
  writer.PutText(text.substr(0, kMaxErrorBytes));
}

RefusalKind GetRefusalKind(ByteReader& reader) {
  const auto kind = static_cast<RefusalKind>(reader.Get<uint8_t>());
  if (kind < RefusalKind::kInvalid || kind > kLastRefusalKind) {
    throw Error(Phase::kRun, "message: unknown kind of refusal");
  }
  return kind;
}

zmq::message_t ToFrame(const ByteWriter& writer) {
  return {writer.bytes().data(), writer.bytes().size()};
}

void PutPorts(ByteWriter& writer, const std::vector<uint16_t>& ports) {
  writer.Put(static_cast<uint8_t>(ports.size()));
  for (const uint16_t port : ports) writer.Put(port);
}

void GetPorts(ByteReader& reader, Reply& into) {
  into.ports.clear();
  if (into.operation != Operation::kHello) return;
  const auto count = reader.Get<uint8_t>();
  if (count >= kMaxServerThreads) throw Error(Phase::kRun, "message: too many ports");
  for (int i = 0; i < count; ++i) into.ports.push_back(reader.Get<uint16_t>());
  if (std::find(into.ports.begin(), into.ports.end(), 0) != into.ports.end()) {
    throw Error(Phase::kRun, "message: port 0");
  }
}

}  // namespace

size_t FloatsOf(const std::vector<Range>& ranges) {
  size_t floats = 0;
  for (const Range& range : ranges) floats += range.count;
  return floats;
}

zmq::message_t Encode(const Request& request) {
  ByteWriter writer;
  writer.Put(kProtocolVersion);
  writer.Put(static_cast<uint8_t>(request.operation));
  writer.Put(request.attempt);
  writer.Put(request.client);
  switch (request.operation) {
    case Operation::kHello:
      writer.PutText(request.task);
      break;
    case Operation::kCreate:
      writer.PutText(request.optimizer);
      writer.PutText(request.update_mode);
      PutVariables(writer, request.variables);
      PutTables(writer, request.tables);
      writer.Put(static_cast<uint8_t>(request.restores ? 1 : 0));
      break;
    case Operation::kOpen:
      PutVariables(writer, request.variables);
      PutTables(writer, request.tables);
      break;
    case Operation::kExchange:
    case Operation::kAssign:
    case Operation::kRows:
      PutPart(writer, request.operation, request.part);
      break;
    case Operation::kGoodbye:
    case Operation::kEnd:
      break;
    case Operation::kLocal:
      writer.PutText(request.host);
      break;
    case Operation::kSave:
    case Operation::kRestore:
      PutCheckpoint(writer, request.operation, request.checkpoint);
      break;
  }
  return ToFrame(writer);
}

bool IsAbout(const zmq::message_t& header, Operation operation) {
  constexpr size_t kPlace = sizeof kProtocolVersion;
  return header.size() > kPlace &&
         header.data<uint8_t>()[kPlace] == static_cast<uint8_t>(operation);
}

void Decode(std::string_view header, Request& into) {
  // What cannot be read is answered as the hello that it may have been.
  into.operation = Operation::kHello;
  into.task.clear();
  into.optimizer.clear();
  into.update_mode.clear();
  into.variables.clear();
  into.tables.clear();
  into.part.push.clear();
  into.part.pull.clear();
  into.part.rows.clear();
  into.part.place.reset();
  into.host.clear();
  into.restores = false;
  into.checkpoint = {};
  ByteReader reader(header);
  into.operation = GetStart(reader, header);
  into.attempt = reader.Get<uint32_t>();
  into.client = reader.Get<uint64_t>();
  switch (into.operation) {
    case Operation::kHello:
      into.task = reader.GetText(kMaxNameBytes);
      break;
    case Operation::kCreate:
      into.optimizer = reader.GetText(kMaxNameBytes);
      into.update_mode = reader.GetText(kMaxModeBytes);
      GetVariables(reader, into.variables);
      GetTables(reader, into.tables);
      into.restores = GetRestores(reader);
      break;
    case Operation::kOpen:
      GetVariables(reader, into.variables);
      GetTables(reader, into.tables);
      break;
    case Operation::kExchange:
    case Operation::kAssign:
    case Operation::kRows:
      GetPart(reader, into.operation, into.part);
      break;
    case Operation::kGoodbye:
    case Operation::kEnd:
      break;
    case Operation::kLocal:
      into.host = reader.GetText(kMaxNameBytes);
      break;
    case Operation::kSave:
    case Operation::kRestore:
      GetCheckpoint(reader, into.operation, into.checkpoint);
      break;
  }
  reader.ExpectEnd();
}

zmq::message_t Encode(const Reply& reply) {
  ByteWriter writer;
  writer.Put(kProtocolVersion);
  writer.Put(static_cast<uint8_t>(reply.operation));
  writer.Put(static_cast<uint8_t>(reply.status));
  writer.Put(reply.number);
  writer.Put(reply.sequence);
  writer.Put(reply.step);
  writer.Put(reply.local_step);
  PutLoad(writer, reply);
  if (reply.operation == Operation::kCreate || reply.operation == Operation::kOpen) {
    writer.Put(reply.creation);
    writer.PutText(reply.update_mode);
    writer.Put(CreationFlagsOf(reply));
  }
  if (reply.operation == Operation::kLocal) writer.PutText(reply.offer);
  if (reply.operation == Operation::kHello) PutPorts(writer, reply.ports);
  if (HasSaved(reply)) PutSaved(writer, reply);
  if (reply.status == Status::kRefused) writer.Put(static_cast<uint8_t>(reply.refusal));
  if (HasText(reply.status)) PutCut(writer, reply.error);
  if (reply.status == Status::kRefused) PutCut(writer, reply.remedy);
  return ToFrame(writer);
}

void Decode(std::string_view header, Reply& into) {
  ByteReader reader(header);
  into.operation = GetStart(reader, header);
  into.status = static_cast<Status>(reader.Get<uint8_t>());
  if (into.status > Status::kWaiting) throw Error(Phase::kRun, "message: unknown status");
  into.number = reader.Get<uint32_t>();
  into.sequence = reader.Get<uint64_t>();
  into.step = reader.Get<uint64_t>();
  into.local_step = reader.Get<uint64_t>();
  GetLoad(reader, into);
  const bool creation = into.operation == Operation::kCreate || into.operation == Operation::kOpen;
  into.creation = creation ? reader.Get<uint64_t>() : 0;
  into.update_mode = creation ? reader.GetText(kMaxModeBytes) : "";
  SetCreationFlags(creation ? reader.Get<uint8_t>() : 0, into);
  into.offer = into.operation == Operation::kLocal ? reader.GetText(kMaxOfferBytes) : "";
  GetPorts(reader, into);
  GetSaved(reader, into);
  const bool refused = into.status == Status::kRefused;
  into.refusal = refused ? GetRefusalKind(reader) : RefusalKind::kInvalid;
  into.error = HasText(into.status) ? reader.GetText(kMaxErrorBytes) : "";
  into.remedy = refused ? reader.GetText(kMaxErrorBytes) : "";
  reader.ExpectEnd();
}

}  // namespace tfdist::runtime
