// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_IMPL_OPTIONS_IPP
#define CAUSEWAY_NN_IMPL_OPTIONS_IPP

#include <causeway/nn/options.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn { namespace detail {

CAUSEWAY_DECL result<void> check_sizes(std::string_view where, std::initializer_list<named_size> sizes) {
  for (const auto& s : sizes) {
    if (s.value >= 1 && s.value <= s.limit) continue;
    return fail(
        s.value < 1 ? errc::invalid_argument : errc::too_large, std::string{where},
        std::string{s.name} + " is " + std::to_string(s.value) + "; it must be between 1 and " + std::to_string(s.limit));
  }
  return {};
}

CAUSEWAY_DECL std::string divisors_near(std::int64_t n, std::int64_t near) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    all.push_back(d);
    if (d != n / d) all.push_back(n / d);
  }
  constexpr std::size_t most = 6;
  const auto distance = [near](std::int64_t d) { return d < near ? near - d : d - near; };
  std::string line;
  std::sort(all.begin(), all.end(), [&](auto a, auto b) { return distance(a) < distance(b); });
  if (all.size() > most) all.resize(most);
  std::sort(all.begin(), all.end());
  for (const std::int64_t d : all) line += (line.empty() ? "" : ", ") + std::to_string(d);
  return line;
}

CAUSEWAY_DECL result<void> check_divides(std::string_view where, std::string_view part_name, std::int64_t part,
                                         std::string_view whole_name, std::int64_t whole) {
  if (whole % part == 0) return {};
  return fail(errc::invalid_argument, std::string{where},
              std::string{part_name} + " (" + std::to_string(part) + ") does not divide " + std::string{whole_name} + " (" +
                  std::to_string(whole) + "); use one of " + divisors_near(whole, part));
}

CAUSEWAY_DECL result<void> check_fraction(std::string_view where, std::string_view name, float value) {
  if (value >= 0.0F && value < 1.0F) return {};
  return fail(errc::invalid_argument, std::string{where},
              std::string{name} + " is " + std::to_string(value) + "; it must be at least 0 and less than 1");
}

CAUSEWAY_DECL result<void> check_positive(std::string_view where, std::string_view name, float value) {
  if (value > 0.0F && value < 3.0e38F) return {};
  return fail(errc::invalid_argument, std::string{where},
              std::string{name} + " is " + std::to_string(value) + "; it must be positive and finite");
}

CAUSEWAY_DECL result<void> check_count(std::string_view where, double parameters) {
  constexpr double most = 1099511627776.0;  // 2^40
  if (parameters <= most) return {};
  return fail(errc::too_large, std::string{where},
              "these sizes make about " + std::to_string(parameters / 1e9) +
                  " billion parameters; this library stops at 2^40: reduce layers, width or vocabulary");
}

}}}}  // namespace causeway::CAUSEWAY_ABI::nn::detail

#endif  // CAUSEWAY_NN_IMPL_OPTIONS_IPP
