// SPDX-License-Identifier: Apache-2.0
#include "option.hpp"

#include <algorithm>

namespace app {
namespace {

// Letters to insert, drop or change to get from one word to the other (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

bool same_word(std::string_view a, std::string_view b) {
  const auto plain = [](char c) { return c == '-' ? '_' : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return plain(x) == plain(y); });
}

std::string words_text(const std::vector<std::string>& words) {
  constexpr std::size_t most_in_a_sentence = 12;
  std::string text = words.size() > most_in_a_sentence ? "one of " : "";
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool last = i + 1 == words.size() && words.size() <= most_in_a_sentence;
    text += (i == 0 ? "" : last ? " or " : ", ") + (words[i].empty() ? "nothing" : words[i]);
  }
  return text;
}

std::string bounds_text(const allowed_values& a) {
  const bool low = std::isfinite(a.least), high = std::isfinite(a.most);
  const std::string least = detail::to_text(a.least), most = detail::to_text(a.most);
  if (low && high && !a.above && !a.below) return least + " to " + most;
  std::string text = !low ? "" : a.above ? "more than " + least : least + " or more";
  if (high) text += (text.empty() ? "" : ", ") + (a.below ? "less than " + most : "up to " + most);
  return text;
}

}  // namespace

bool is_allowed(const setting& s) {
  const std::string value = s.get();
  const auto& words = s.allowed.words;
  if (!words.empty()) return std::find(words.begin(), words.end(), value) != words.end();
  double number = 0;
  if ((s.type != "integer" && s.type != "number") || !detail::from_text(value, number)) return true;
  const bool low = s.allowed.above ? number > s.allowed.least : number >= s.allowed.least;
  return low && (s.allowed.below ? number < s.allowed.most : number <= s.allowed.most);
}

std::string allowed_text(const setting& s) {
  return s.allowed.words.empty() ? bounds_text(s.allowed) : words_text(s.allowed.words);
}

std::string choose_from(const std::vector<std::string>& all, const std::string& wrong) {
  const std::string guess = nearest(all, wrong);
  return "'" + wrong + "'; " + (guess.empty() ? "" : "did you mean " + guess + "? If not, ") + "use " + words_text(all);
}

setting* find(std::vector<setting>& all, std::string_view name) {
  const auto called = [&](const setting& s) {
    return same_word(s.name, name) || (!s.alias.empty() && same_word(s.alias, name));
  };
  const auto found = std::find_if(all.begin(), all.end(), called);
  return found == all.end() ? nullptr : &*found;
}

std::string nearest(const std::vector<std::string>& all, std::string_view wanted) {
  const auto closer = [&](const std::string& a, const std::string& b) { return distance(a, wanted) < distance(b, wanted); };
  const auto best = std::min_element(all.begin(), all.end(), closer);
  const std::size_t most_changed = std::clamp<std::size_t>((wanted.size() + 1) / 3, 1, 3);
  return best != all.end() && distance(*best, wanted) <= most_changed ? *best : std::string{};
}

}  // namespace app
