#include "agent/resolved_names.h"

#include "agent/json_fields.h"

namespace tfdist::protocol {

TFDIST_JSON_FIELDS(ResolvedName, name, addresses, why)
TFDIST_JSON_FIELDS(ResolvedNames, names, own)

}  // namespace tfdist::protocol
