// SPDX-License-Identifier: Apache-2.0
// Texts of config.json from strangers: refused with a message, or a model whose own text reads back as the same.

#include <causeway/formats/model_config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace formats = causeway::formats;
  const auto read = formats::read_config({reinterpret_cast<const char*>(data), size}, "input");
  if (!read) return read.error().message.empty() ? std::abort(), 0 : 0;
  const auto again = formats::read_config(formats::config_text(*read, 3), "written");
  if (!again || !formats::check_same_model(*read, *again) || !formats::check_same_model(*again, *read)) std::abort();
  return 0;
}
