// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_MESSAGES_IPP
#define CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_MESSAGES_IPP

// Bodies of parallel/experts/expert_messages.hpp.

#include <causeway/parallel/experts/expert_messages.hpp>

#include <bit>
#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace expert_wire { namespace detail {

CAUSEWAY_DECL void put_values(net::byte_writer& out, std::span<const float> values) {
  out.put(static_cast<std::uint32_t>(values.size()));
  for (const float v : values) out.put(std::bit_cast<std::uint32_t>(v));
}

CAUSEWAY_DECL std::vector<float> get_values(net::byte_reader& in) {
  const auto count = in.get<std::uint32_t>();
  if (std::size_t{count} * sizeof(float) > in.remaining()) in.refuse();
  std::vector<float> values(in.ok() ? count : 0);
  for (float& v : values) {
    v = std::bit_cast<float>(in.get<std::uint32_t>());
    if (!std::isfinite(v)) in.refuse();
  }
  return values;
}

CAUSEWAY_DECL void write(net::byte_writer& out, const announcement& m) {
  out.put(m.milliseconds).put(static_cast<std::uint32_t>(m.experts.size()));
  for (const stage::expert_id e : m.experts) out.put(e);
}

CAUSEWAY_DECL void read(net::byte_reader& in, announcement& m) {
  m.milliseconds = in.get<std::uint32_t>();
  const auto count = in.get<std::uint32_t>();
  if (count > most_experts) in.refuse();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) m.experts.push_back(in.get<std::uint64_t>());
}

CAUSEWAY_DECL void write(net::byte_writer& out, const request& m) {
  put_values(out.put(m.number).put(m.backward).put(m.expert), m.values);
}

CAUSEWAY_DECL void read(net::byte_reader& in, request& m) {
  m.number = in.get<std::uint64_t>();
  m.backward = in.get<std::uint8_t>();
  if (m.backward > 1) in.refuse();
  m.expert = in.get<std::uint64_t>();
  m.values = get_values(in);
}

CAUSEWAY_DECL void read(net::byte_reader& in, answer& m) {
  m.number = in.get<std::uint64_t>();
  m.values = get_values(in);
}

}}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::expert_wire::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace expert_wire {

CAUSEWAY_DECL std::vector<std::byte> encode(std::uint64_t run, const message& m) {
  return envelope::seal(detail::messages, run, m,
                        [](net::byte_writer& out, const auto& which) { detail::write(out, which); });
}

CAUSEWAY_DECL result<message> decode(std::uint64_t run, std::span<const std::byte> bytes) {
  return envelope::open<message>(detail::messages, run, bytes,
                                 [](net::byte_reader& in, auto& which) { detail::read(in, which); });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::expert_wire

#endif  // CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_MESSAGES_IPP
