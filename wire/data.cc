#include "wire/data.h"

#include "base/json_fields.h"

namespace tfdist::protocol {

TFDIST_JSON_FIELDS(WantedImage, key, reference, engines, layers, size_bytes)
TFDIST_JSON_FIELDS(DataOffer, key, files, unpacked_bytes, image_layers)
TFDIST_JSON_FIELDS(DataAsk, keys, offers, images)
TFDIST_JSON_FIELDS(DataState, missing, waits)

}  // namespace tfdist::protocol
