// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_MESSAGES_IPP
#define CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_MESSAGES_IPP

// Bodies of parallel/serving/block_messages.hpp.

#include <causeway/parallel/serving/block_messages.hpp>

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

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::block_wire

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace block_wire { namespace detail {

CAUSEWAY_DECL void write(net::byte_writer& out, const nn::block_range& r) {
  out.put(static_cast<std::uint32_t>(r.first)).put(static_cast<std::uint32_t>(r.last));
}

CAUSEWAY_DECL void read(net::byte_reader& in, nn::block_range& r) {
  r.first = envelope::get_below(in, most_layers);
  r.last = envelope::get_below(in, most_layers + 1);
  if (r.size() < 1) in.refuse();
}

CAUSEWAY_DECL double get_seconds(net::byte_reader& in) {
  const double v = envelope::get_real(in);
  if (v < 0 || v > longest_seconds) in.refuse();
  return v;
}

CAUSEWAY_DECL std::uint32_t get_positive(net::byte_reader& in) {
  const auto v = envelope::get_below(in, most_tokens);
  if (v == 0) in.refuse();
  return v;
}

CAUSEWAY_DECL void write(net::byte_writer& out, const announcement& m) {
  write(out.put(m.milliseconds), m.offer.blocks);
  envelope::put_real(out, m.offer.seconds);
  envelope::put_real(out, m.offer.load);
  envelope::put_real(out, m.throughput);
  out.put(m.offer.most_requests).put(m.offer.most_rows);
}

CAUSEWAY_DECL void read(net::byte_reader& in, announcement& m) {
  m.milliseconds = in.get<std::uint32_t>();
  read(in, m.offer.blocks);
  m.offer.seconds = get_seconds(in);
  m.offer.load = get_seconds(in);
  m.throughput = envelope::get_real(in);
  if (m.throughput < 0) in.refuse();
  m.offer.most_requests = get_positive(in);
  m.offer.most_rows = get_positive(in);
}

CAUSEWAY_DECL void write(net::byte_writer& out, const addresses& m) {
  out.put(static_cast<std::uint32_t>(m.list.size()));
  for (const std::string& a : m.list) out.put_text(a);
}

CAUSEWAY_DECL void read(net::byte_reader& in, addresses& m) {
  const auto n = envelope::get_below(in, most_addresses + 1);
  for (std::uint32_t i = 0; i < n && in.ok(); ++i) m.list.push_back(in.get_text(longest_address));
}

CAUSEWAY_DECL void write(net::byte_writer& out, const request& m) {
  write(out.put(m.number).put(m.backward), m.blocks);
  out.put(m.sequences).put(m.tokens).put(m.prompts).put(m.x_bytes).put(m.adapters.rank).put(m.adapters.maps);
}

CAUSEWAY_DECL void read(net::byte_reader& in, request& m) {
  m.number = in.get<std::uint64_t>();
  m.backward = envelope::get_flag(in);
  read(in, m.blocks);
  m.sequences = get_positive(in);
  m.tokens = get_positive(in);
  m.prompts = in.get<std::uint32_t>();
  if (m.prompts > m.tokens) in.refuse();
  m.x_bytes = in.get<std::uint32_t>();
  m.adapters.rank = envelope::get_below(in, nn::adapter_shape::most_rank + 1);
  m.adapters.maps = in.get<std::uint8_t>();
}

}}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::block_wire::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace block_wire {

CAUSEWAY_DECL std::vector<std::byte> encode(std::uint64_t run, const message& m) {
  return envelope::seal(detail::messages, run, m,
                        [](net::byte_writer& out, const auto& which) { detail::write(out, which); });
}

CAUSEWAY_DECL result<message> decode(std::uint64_t run, std::span<const std::byte> bytes) {
  return envelope::open<message>(detail::messages, run, bytes,
                                 [](net::byte_reader& in, auto& which) { detail::read(in, which); });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::block_wire

#endif  // CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_MESSAGES_IPP
