// Rows of tables in a client's requests: how they are cut into messages, and how they get from the
// caller's memory into a message and back.
#pragma once

#include <span>
#include <vector>

#include "runtime/client/request.h"
#include "runtime/transport/messages.h"
#include "runtime/update/row_summer.h"

namespace tfdist::runtime {

// Collects the parts of one request to one server that are about rows. All pushes are added first,
// then the pulls: messages are handled in order, so that a pull finds the whole push applied,
// however many messages it takes.
class RowPartsBuilder {
 public:
  // Cuts what fills messages of its own, and lets small slices travel together. A push may be of no
  // row: that it is one is told all the same. Once for each table.
  void AddPush(const RowsSlice& slice);
  void AddPull(const RowsSlice& slice);
  std::vector<RequestPart> Take();

  // Whether the gradients of a slice do not fit into one message.
  static bool IsCut(const RowsSlice& push);

 private:
  void Add(const RowsSlice& slice, std::vector<RowsSlice> RequestPart::*kind);
  void Cut(const RowsSlice& slice, size_t pieces, std::vector<RowsSlice> RequestPart::*kind);
  RequestPart& OpenPart(size_t bytes);

  std::vector<RequestPart> parts_;
  bool open_ = false;  // the part that small slices go to may take more
  size_t open_at_ = 0;
  size_t open_bytes_ = 0;  // of its message or of its answer, whichever is larger, at most
  bool pulling_ = false;
};

// The same push with each row once, kept in `into`; the push itself when no row comes twice.
RowsSlice SumRepeated(const RowsSlice& push, RowSummer& summer, SummedRows& into);

// For the header: what the payload holds. `counts` is written over.
void CountsOf(const RequestPart& part, std::vector<RowCounts>& counts);
// The payload, of PushBytes(), with `counts` as CountsOf has them.
void WriteRows(const RequestPart& part, const std::vector<RowCounts>& counts, void* to);
// Puts an answer, which is as long as it must be, where it belongs.
void ScatterRows(const zmq::message_t& answer, const RequestPart& part);

}  // namespace tfdist::runtime
