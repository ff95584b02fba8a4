// Takes a caller's request apart into the messages to each server.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/client.h"
#include "runtime/client/request.h"
#include "runtime/client/rows.h"
#include "runtime/client/server_facts.h"
#include "runtime/client/sharding.h"

namespace tfdist::runtime {

// Collects the parts of one request to one server, one for each block.
class BlockPartsBuilder {
 public:
  // `first`: where the extent begins in the caller's variable, which has `of` floats.
  void Add(const Extent& extent, const float* gradient, size_t variable, size_t first, size_t of) {
    PartOf(extent.block)
        .push.push_back(
            {{extent.offset, extent.count}, gradient + first, variable, of - first - extent.count});
  }
  void Add(const Extent& extent, float* target, size_t variable, size_t first, size_t /*of*/) {
    PartOf(extent.block).pull.push_back({{extent.offset, extent.count}, target + first, variable});
  }
  std::vector<RequestPart> Take();

 private:
  RequestPart& PartOf(uint32_t block);

  std::vector<RequestPart> parts_;
  std::vector<size_t> positions_;  // by block: that of its part, counted from 1
};

// Borrows the sharding, and of each server what is known of it. Requests borrow the caller's memory.
class RequestBuilder {
 public:
  RequestBuilder(const Sharding& sharding, std::vector<const ServerFacts*> servers);

  // Each is a variable of the client, once, with as many values as it has, else Error(kUsage).
  void Check(const Gradients& gradients, const char* what) { CheckAll(gradients, what); }
  void Check(const Gradients& gradients, const Targets& targets, const RowGradients& row_gradients,
             const RowTargets& row_targets);
  // What the parts refer to is kept in `state`. Throws Error(kUsage), with nothing added, for an id
  // that does not exist.
  void Add(const Gradients& gradients, const Targets& targets, const RowGradients& row_gradients,
           const RowTargets& row_targets, RequestState& state);
  void Add(const Gradients& gradients);
  // The parts for one server, of what was added since they were taken last.
  std::vector<RequestPart> Take(size_t server);
  // The request has ended: its memory can be used again.
  void Recycle(RequestState& state);

 private:
  template <typename Items>
  void CheckAll(const Items& items, const char* what);
  template <typename Items>
  void CheckAllRows(const Items& items, const char* what);
  void Split(size_t table, std::span<const int64_t> ids, RequestState& state);
  void AddRows(const RowGradients& gradients, const RowTargets& targets, RequestState& state);
  template <typename Use>
  void ForEachSlice(size_t table, const SplitIds& split, Use use) const;
  RowsSlice OnceEach(size_t server, const RowsSlice& push, RequestState& state);
  template <typename Float>
  void AddPieces(size_t variable, Float* values);

  const Sharding& sharding_;
  std::vector<const ServerFacts*> servers_;
  std::vector<BlockPartsBuilder> blocks_;  // by server
  std::vector<RowPartsBuilder> rows_;      // the same
  RowSummer row_summer_;
  std::vector<std::unique_ptr<SplitIds>> spare_splits_;  // these two are kept for their allocations
  std::vector<bool> seen_;
};

}  // namespace tfdist::runtime
