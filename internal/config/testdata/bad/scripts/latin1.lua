-- Grüße
function weigh() end
