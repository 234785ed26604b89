// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_IMPL_CHECKPOINT_IPP
#define CAUSEWAY_IO_IMPL_CHECKPOINT_IPP

#include <causeway/io/checkpoint.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

CAUSEWAY_DECL std::string checkpoint_name(std::uint64_t step) {
  const std::string digits = std::to_string(step);
  return "step-" + std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits + ".ckpt";
}

CAUSEWAY_DECL std::optional<std::uint64_t> checkpoint_step(std::string_view name) {
  if (!name.starts_with("step-") || !name.ends_with(".ckpt")) return std::nullopt;
  const std::string_view digits = name.substr(5, name.size() - 10);
  std::uint64_t step = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    step = step * 10 + static_cast<std::uint64_t>(c - '0');
  }
  if (checkpoint_name(step) != name) return std::nullopt;  // too many digits, or too few
  return step;
}

}}}  // namespace causeway::CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_IMPL_CHECKPOINT_IPP
