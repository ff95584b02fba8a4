#include "wire/room.h"

#include "base/json_fields.h"

namespace tfdist::protocol {

TFDIST_JSON_FIELDS(Room, threads, descriptors)

}  // namespace tfdist::protocol
