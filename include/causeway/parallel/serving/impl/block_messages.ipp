// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_MESSAGES_IPP
#define CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_MESSAGES_IPP

#include <causeway/parallel/serving/block_messages.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace block_wire { namespace detail {

inline constexpr net::envelope::kind messages{"block message", ", or of another model or codec", 2};

CAUSEWAY_DECL void span_field::put(net::byte_writer& out) const {
  out.put(static_cast<std::uint32_t>(blocks.first)).put(static_cast<std::uint32_t>(blocks.last));
}

CAUSEWAY_DECL void span_field::get(net::byte_reader& in) const {
  std::uint32_t first = 0, last = 0;
  net::field_reader{in}(net::below{first, most_layers}, net::below{last, most_layers + 1});
  blocks = {first, last};
  if (blocks.size() < 1) in.refuse();
}

}}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::block_wire::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace block_wire {

CAUSEWAY_DECL double request::work() const noexcept {
  return static_cast<double>(rows()) * static_cast<double>(blocks.size()) * (backward != 0 ? 2.0 : 1.0);
}

CAUSEWAY_DECL net::message_id request_id(std::uint64_t number) {
  return {.channel = collective::channels::activations, .epoch = 0, .step = number};
}

CAUSEWAY_DECL net::message_id answer_id(std::uint64_t number) {
  return {.channel = collective::channels::activations + 1, .epoch = 0, .step = number};
}

CAUSEWAY_DECL std::vector<std::byte> encode(std::uint64_t run, const message& m) {
  return net::envelope::seal(detail::messages, run, m);
}

CAUSEWAY_DECL result<message> decode(std::uint64_t run, std::span<const std::byte> bytes) {
  return net::envelope::open<message>(detail::messages, run, bytes);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::block_wire

#endif  // CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_MESSAGES_IPP
